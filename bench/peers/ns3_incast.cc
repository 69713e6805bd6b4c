// The peers' scenario for ns-3.37: N senders, one switch, one client, barrier rounds over a star.
//
//   sender 1 --+
//   sender 2 --+-- switch ==== client        every link: `rate`, a quarter of `rtt` of propagation
//   sender N --+     ^ port with `buffer` bytes, drop-tail (newreno), marking above `k` packets (dctcp), RED (red, ecn)
//
// Usage: ns3_incast --senders=32 --seed=1 ...      prints one JSON object. `--help` lists the settings.
//
// How the workload maps on ns-3:
//  * The senders begin by themselves at the barrier, each late by its start jitter; the round ends with the last
//    byte at the client, and the next begins there and then.
//  * request=BYTES: the client asks each sender for its part instead, which begins as the request has come, late by its
//    jitter. Needs persistent=1.
//  * persistent=1 opens all connections before the first round and keeps them; persistent=0 opens new ones each round.
//
// TCP is set as ns3_tcp.h says. Beside that:
//  * The address helper puts an FqCoDel queue discipline on each device: removed, else the port is not drop-tail.
//  * Frames are PPP: MSS + 40 + 2 bytes, without Ethernet's preamble and gap. The packet being sent is not in the queue.
//  * DCTCP marks in a queue discipline (RED with both thresholds at k, neither averaging nor "gentle") above a device
//    queue of one packet: that one and the one on the wire are not counted. An arriving packet is marked when it finds
//    k or more in the discipline, k + 2 or more in all. RED sits there, too, in its own spacing of drops (Wait).

#include "ns3_tcp.h"

#include "ns3/network-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace
{

/// What the command line settles beside TCP.
struct Settings : Tcp
{
    double rate{1e9};        // bit/s
    double rtt{120e-6};      // s, propagation only
    uint32_t buffer{96000};  // bytes
    uint32_t senders{8};
    uint64_t bytes{64000};   // per sender and round
    uint64_t block{0};       // per round over all senders; 0: `bytes` rules
    uint32_t rounds{20};
    double jitter{20e-6};    // s
    uint32_t seed{1};
    uint32_t k{20};          // packets, dctcp only
    double redMin{15};       // packets; red and ecn only, as what follows
    double redMax{25};
    double redWeight{0.002};
    double redProbability{0.1};
    bool redGentle{false};
    uint32_t ssthresh{0};    // bytes; 0: unlimited
    uint32_t rwnd{0};        // bytes, without window scaling; 0: unlimited
    uint32_t nic{0};         // bytes of a sender's own queue; 0: unlimited
    uint32_t request{0};     // bytes; 0: none
    bool persistent{true};
    std::string scheme{"newreno"};
    double limit{40000};     // s of simulated time
    double wallLimit{600};   // s of real time
    bool verbose{false};
    std::string pcap{};      // prefix of the client's capture

    /// Bytes of one sender in one round.
    uint64_t Share() const
    {
        return block > 0 ? block / senders : bytes;
    }
};

/// One sender's application: writes what was asked for into its socket.
class Sender : public Source
{
  public:
    Sender(Ptr<Node> node, InetSocketAddress client, const Settings& settings, Ptr<UniformRandomVariable> jitter)
        : m_node(node),
          m_client(client),
          m_request(settings.request),
          m_share(settings.Share()),
          m_jitter(jitter)
    {
    }

    void Open()
    {
        m_owed = 0;
        auto socket = Socket::CreateSocket(m_node, TcpSocketFactory::GetTypeId());
        socket->SetRecvCallback(MakeCallback(&Sender::Asked, this));
        ConnectTo(socket, m_client);
    }

    void Close()
    {
        m_socket->Close();
    }

    void Send(uint64_t bytes)
    {
        m_owed += bytes;
        Push();
    }

    bool IsConnected() const
    {
        return m_connected;
    }

  private:
    /// A request has come whole: its answer begins after the jitter.
    void Asked(Ptr<Socket> socket)
    {
        while (Ptr<Packet> packet = socket->Recv())
        {
            m_asked += packet->GetSize();
        }
        if (m_request > 0 && m_asked >= m_request)
        {
            m_asked -= m_request;
            Simulator::Schedule(Seconds(m_jitter->GetValue()), &Sender::Send, this, m_share);
        }
    }

    Ptr<Node> m_node;
    InetSocketAddress m_client;
    uint32_t m_request;
    uint64_t m_share;
    Ptr<UniformRandomVariable> m_jitter;
    uint32_t m_asked{0};
};

/// The run: barrier rounds over the senders, and what is counted.
class Incast
{
  public:
    explicit Incast(const Settings& settings)
        : m_set(settings),
          m_perSender(settings.Share())
    {
        m_random = CreateObject<UniformRandomVariable>();
        m_random->SetAttribute("Max", DoubleValue(m_set.jitter));
        Build();
    }

    void Run()
    {
        for (uint32_t i = 0; i < m_set.senders && m_set.persistent; ++i)
        {
            // One at a time, so that no SYN is lost before the first round.
            Simulator::Schedule(Seconds(0.001 + i * 1e-5), &Sender::Open, m_senders[i].get());
        }
        Simulator::Schedule(Seconds(0.5), &Incast::StartRound, this);
        Simulator::Stop(Seconds(m_set.limit));
        Report(RunFor(m_set.wallLimit, "ns3_incast"));
        Simulator::Destroy();
    }

  private:
    void Build()
    {
        PointToPointHelper link = Links(m_set.rate, m_set.rtt / 4);

        NodeContainer client(1);
        NodeContainer hub(1);
        NodeContainer senders(m_set.senders);
        InternetStackHelper stack;
        stack.Install(client);
        stack.Install(hub);
        stack.Install(senders);

        TrafficControlHelper none;
        Ipv4AddressHelper address("10.0.0.0", "255.255.255.252");
        auto down = link.Install(hub.Get(0), client.Get(0));
        auto downAddress = address.Assign(down);
        none.Uninstall(down);
        m_port = down.Get(0);
        SetPort();
        if (!m_set.pcap.empty())
        {
            link.EnablePcap(m_set.pcap, down.Get(1), true, true);
        }
        for (uint32_t i = 0; i < m_set.senders; ++i)
        {
            address.NewNetwork();
            auto up = link.Install(senders.Get(i), hub.Get(0));
            address.Assign(up);
            none.Uninstall(up);
            if (m_set.nic > 0)
            {
                DynamicCast<PointToPointNetDevice>(up.Get(0))->GetQueue()->SetMaxSize(QueueSize(BYTES, m_set.nic));
            }
            auto routing = Ipv4StaticRoutingHelper().GetStaticRouting(senders.Get(i)->GetObject<Ipv4>());
            routing->SetDefaultRoute(hub.Get(0)->GetObject<Ipv4>()->GetAddress(2 + i, 0).GetLocal(), 1);
            m_senders.push_back(
                std::make_unique<Sender>(senders.Get(i),
                                         InetSocketAddress(downAddress.GetAddress(1), 5000),
                                         m_set,
                                         m_random));
        }
        auto back = Ipv4StaticRoutingHelper().GetStaticRouting(client.Get(0)->GetObject<Ipv4>());
        back->SetDefaultRoute(downAddress.GetAddress(0), 1);

        m_listener = Socket::CreateSocket(client.Get(0), TcpSocketFactory::GetTypeId());
        m_listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), 5000));
        m_listener->Listen();
        m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                      MakeCallback(&Incast::Accepted, this));
    }

    void SetPort()
    {
        auto device = DynamicCast<PointToPointNetDevice>(m_port);
        auto queue = device->GetQueue();
        if (m_set.scheme == "newreno")
        {
            queue->SetMaxSize(QueueSize(BYTES, m_set.buffer));
            // The device stops its queue when a full frame would no longer fit; what comes then is dropped above it.
            m_port->GetNode()->GetObject<TrafficControlLayer>()->TraceConnectWithoutContext(
                "TcDrop",
                MakeCallback(&Incast::Dropped, this));
            return;
        }
        queue->SetMaxSize(QueueSize("1p"));
        bool step = m_set.scheme == "dctcp";
        TrafficControlHelper marking;
        // RED counts in the unit of its limit: packets, as its thresholds do.
        uint32_t packets = m_set.buffer / (m_set.mss + 42);
        marking.SetRootQueueDisc("ns3::RedQueueDisc",
                                 "MaxSize", QueueSizeValue(QueueSize(PACKETS, packets)),
                                 "MinTh", DoubleValue(step ? m_set.k : m_set.redMin),
                                 "MaxTh", DoubleValue(step ? m_set.k : m_set.redMax),
                                 "QW", DoubleValue(step ? 1.0 : m_set.redWeight),
                                 "LInterm", DoubleValue(1.0 / m_set.redProbability),
                                 "Gentle", BooleanValue(!step && m_set.redGentle),
                                 "MeanPktSize", UintegerValue(m_set.mss + 42),
                                 "LinkBandwidth", DataRateValue(DataRate(uint64_t(m_set.rate))),
                                 "UseEcn", BooleanValue(m_set.scheme != "red"),
                                 "UseHardDrop", BooleanValue(false));
        auto discs = marking.Install(m_port);
        discs.Get(0)->TraceConnectWithoutContext("Drop", MakeCallback(&Incast::DiscDropped, this));
    }

    void Dropped(Ptr<const Packet>)
    {
        ++m_drops;
    }

    void DiscDropped(Ptr<const QueueDiscItem>)
    {
        ++m_drops;
    }

    void Accepted(Ptr<Socket> socket, const Address&)
    {
        if (m_set.request > 0)
        {
            m_clients.push_back(socket);
        }
        socket->SetRecvCallback(MakeCallback(&Incast::Arrived, this));
        socket->SetCloseCallbacks(MakeCallback(&Incast::Closed, this),
                                  MakeCallback(&Incast::Closed, this));
    }

    void Closed(Ptr<Socket> socket)
    {
        socket->Close();
    }

    void Arrived(Ptr<Socket> socket)
    {
        while (Ptr<Packet> packet = socket->Recv())
        {
            m_missing -= packet->GetSize();
        }
        if (m_missing == 0)
        {
            EndRound();
        }
    }

    void StartRound()
    {
        ++m_round;
        m_started = Simulator::Now();
        m_missing = m_perSender * m_set.senders;
        if (m_set.request > 0)
        {
            for (auto& client : m_clients)
            {
                client->Send(Create<Packet>(m_set.request));
            }
            return;
        }
        for (auto& sender : m_senders)
        {
            auto at = Seconds(m_random->GetValue());
            if (!m_set.persistent)
            {
                Simulator::Schedule(at, &Sender::Open, sender.get());
            }
            Simulator::Schedule(at, &Sender::Send, sender.get(), m_perSender);
        }
    }

    void EndRound()
    {
        auto took = Simulator::Now() - m_started;
        m_busy += took;
        m_roundMs.push_back(took.GetSeconds() * 1e3);
        uint64_t all = 0;
        for (auto& sender : m_senders)
        {
            all += sender->m_timeouts;
            if (!m_set.persistent)
            {
                sender->Close();
            }
        }
        if (m_set.verbose)
        {
            std::cerr << "round " << m_round << ": " << took.GetSeconds() << " s, "
                      << all - m_timeouts << " timeouts\n";
        }
        if (all > m_timeouts)
        {
            ++m_timeoutRounds;
            m_firstTimeoutRound = m_firstTimeoutRound ? m_firstTimeoutRound : m_round;
        }
        m_timeouts = all;
        if (m_round < m_set.rounds)
        {
            StartRound();
        }
        else
        {
            Simulator::Stop();
        }
    }

    void Report(double wall)
    {
        auto finished = uint64_t(m_roundMs.size());
        std::sort(m_roundMs.begin(), m_roundMs.end());
        uint64_t perSenderPackets = (m_perSender + m_set.mss - 1) / m_set.mss;
        double seconds = m_busy.GetSeconds();
        double goodput =
            finished ? double(m_perSender) * m_set.senders * finished * 8 / seconds / 1e6 : 0.0;
        std::printf(
            "{\"simulator\":\"ns-3\",\"scheme\":\"%s\",\"senders\":%u,\"seed\":%u,\"rounds\":%lu,"
            "\"goodput_mbps\":%.3f,\"rto_timeouts\":%lu,\"rounds_with_timeout\":%u,"
            "\"first_timeout_round\":%u,\"packets_delivered\":%lu,\"drops\":%lu,\"sim_s\":%.6f,"
            "\"round_ms_p50\":%.3f,\"round_ms_max\":%.3f,\"events\":%lu,\"wall_s\":%.6f,"
            "\"peak_kib\":%ld}\n",
            m_set.scheme.c_str(),
            m_set.senders,
            m_set.seed,
            finished,
            goodput,
            m_timeouts,
            m_timeoutRounds,
            m_firstTimeoutRound,
            perSenderPackets * m_set.senders * finished,
            m_drops,
            seconds,
            finished ? m_roundMs[finished / 2] : 0.0,
            finished ? m_roundMs.back() : 0.0,
            Simulator::GetEventCount(),
            wall,
            PeakKib());
    }

    Settings m_set;
    uint64_t m_perSender;
    Ptr<UniformRandomVariable> m_random;
    Ptr<NetDevice> m_port;
    Ptr<Socket> m_listener;
    std::vector<std::unique_ptr<Sender>> m_senders;
    std::vector<Ptr<Socket>> m_clients; // the client's ends, when it asks
    uint32_t m_round{0};
    uint64_t m_missing{0};
    Time m_started;
    Time m_busy;
    std::vector<double> m_roundMs;
    uint64_t m_timeouts{0};
    uint32_t m_timeoutRounds{0};
    uint32_t m_firstTimeoutRound{0};
    uint64_t m_drops{0};
};

/// What the scheme settles beside the other attributes of TCP.
void
SetScheme(const Settings& set)
{
    bool dctcp = set.scheme == "dctcp";
    auto type = dctcp ? DctcpWithFloor::GetTypeId() : TcpNewReno::GetTypeId();
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(type));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(dctcp || set.scheme == "ecn" ? "On" : "Off"));
    if (set.rwnd > 0)
    {
        Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(false));
        Config::SetDefault("ns3::TcpSocketBase::MaxWindowSize", UintegerValue(set.rwnd));
    }
    if (set.ssthresh > 0)
    {
        Config::SetDefault("ns3::TcpSocket::InitialSlowStartThreshold", UintegerValue(set.ssthresh));
    }
}

} // namespace

int
main(int argc, char* argv[])
{
    Settings set;
    CommandLine cmd(__FILE__);
    cmd.AddValue("rate", "rate of every link, bit/s", set.rate);
    cmd.AddValue("rtt", "round trip of propagation, s", set.rtt);
    cmd.AddValue("buffer", "buffer of the switch port, bytes", set.buffer);
    set.Describe(cmd);
    cmd.AddValue("senders", "number of senders", set.senders);
    cmd.AddValue("bytes", "bytes per sender and round", set.bytes);
    cmd.AddValue("block", "bytes per round over all senders; 0: see bytes", set.block);
    cmd.AddValue("rounds", "barrier rounds", set.rounds);
    cmd.AddValue("jitter", "start jitter, uniform from 0 to this, s", set.jitter);
    cmd.AddValue("seed", "seed", set.seed);
    cmd.AddValue("k", "marking threshold, packets (dctcp)", set.k);
    cmd.AddValue("red_min", "lower threshold, packets (red, ecn)", set.redMin);
    cmd.AddValue("red_max", "upper threshold, packets (red, ecn)", set.redMax);
    cmd.AddValue("red_weight", "weight of a new queue length (red, ecn)", set.redWeight);
    cmd.AddValue("red_probability", "probability at the upper threshold (red, ecn)", set.redProbability);
    cmd.AddValue("red_gentle", "rise to 1 above the upper threshold instead of a jump (red, ecn)", set.redGentle);
    cmd.AddValue("ssthresh", "initial slow-start threshold, bytes; 0: unlimited", set.ssthresh);
    cmd.AddValue("rwnd", "receive window without scaling, bytes; 0: unlimited", set.rwnd);
    cmd.AddValue("nic", "a sender's own queue, bytes; 0: unlimited", set.nic);
    cmd.AddValue("request", "bytes of the client's request to each sender; 0: none", set.request);
    cmd.AddValue("persistent", "keep the connections over the rounds", set.persistent);
    cmd.AddValue("scheme", "newreno, dctcp, red or ecn", set.scheme);
    cmd.AddValue("limit_s", "longest simulated time, s", set.limit);
    cmd.AddValue("wall_limit_s", "longest real time, s", set.wallLimit);
    cmd.AddValue("verbose", "a line per round on stderr", set.verbose);
    cmd.AddValue("pcap", "prefix of a capture at the client", set.pcap);
    cmd.Parse(argc, argv);
    if (set.senders == 0 || set.rounds == 0 || set.rate <= 0 || set.mss == 0 ||
        (set.request > 0 && !set.persistent) ||
        (set.scheme != "newreno" && set.scheme != "dctcp" && set.scheme != "red" && set.scheme != "ecn"))
    {
        std::cerr << "ns3_incast: senders, rounds, rate and mss must be positive; scheme is newreno, dctcp, red or ecn; "
                     "a request needs persistent connections\n";
        return 2;
    }
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(set.seed);
    set.SetDefaults();
    SetScheme(set);
    Incast(set).Run();
    return 0;
}
