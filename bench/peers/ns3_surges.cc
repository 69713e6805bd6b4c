// The peers' scenario of HWatch for ns-3.37: surges of short flows beside long ones, over a dumbbell.
//
//   senders --- switch ===(port with `buffer` packets)=== switch --- receiver of all short flows
//                                                               `--- a host for the long flows of each group
//
// Usage: ns3_surges --groups=dctcp:40:29200:1.2e-6,dctcp:5 --seed=1 ...      prints one JSON object. `--help` lists the settings.
//
// A group is `tcp:senders` for long flows, or `tcp:senders:bytes:gap` for short ones: in every surge each sender opens a
// connection and sends so many bytes, one after the other in random order, with exponential gaps of that mean in seconds. The first
// group has to be of short flows, and the figures are about it. `tcp` is dctcp, ecn (NewReno that heeds marks) or newreno.
//
//  * TCP is set as ns3_tcp.h says. Every link has the same rate and a sixth of `rtt` of propagation.
//  * Frames are PPP: MSS + 40 + 2 bytes. Only the port between the switches has a bound.
//  * That port marks what finds more than `k` packets waiting, if it is ECN-capable; what is not passes as long as there is room.
//    Its last packet waits in the device, which counts. ns-3's RED would drop what it cannot mark.
//  * A flow ends with its last byte at the receiver. The figures cover the time from the first short flow to the end of the last one;
//    `calm_queue_bytes` covers all time in which no flow of the first group is under way.

#include "ns3_tcp.h"

#include "ns3/network-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

namespace
{

/// First in, first out, and a mark above a threshold for what can carry one.
class StepMarking : public QueueDisc
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid =
            TypeId("ackgate::StepMarking")
                .SetParent<QueueDisc>()
                .AddConstructor<StepMarking>()
                .AddAttribute("MaxSize",
                              "Capacity, packets",
                              QueueSizeValue(QueueSize("250p")),
                              MakeQueueSizeAccessor(&QueueDisc::SetMaxSize, &QueueDisc::GetMaxSize),
                              MakeQueueSizeChecker())
                .AddAttribute("Threshold",
                              "What finds as many packets or more is marked",
                              UintegerValue(50),
                              MakeUintegerAccessor(&StepMarking::m_threshold),
                              MakeUintegerChecker<uint32_t>());
        return tid;
    }

    StepMarking()
        : QueueDisc(QueueDiscSizePolicy::SINGLE_INTERNAL_QUEUE)
    {
    }

  private:
    bool DoEnqueue(Ptr<QueueDiscItem> item) override
    {
        if (GetCurrentSize() + item > GetMaxSize())
        {
            DropBeforeEnqueue(item, "full");
            return false;
        }
        if (GetNPackets() >= m_threshold)
        {
            Mark(item, "threshold");
        }
        return GetInternalQueue(0)->Enqueue(item);
    }

    Ptr<QueueDiscItem> DoDequeue() override
    {
        return GetInternalQueue(0)->Dequeue();
    }

    bool CheckConfig() override
    {
        if (GetNInternalQueues() == 0)
        {
            AddInternalQueue(CreateObjectWithAttributes<DropTailQueue<QueueDiscItem>>("MaxSize", QueueSizeValue(GetMaxSize())));
        }
        return GetNInternalQueues() == 1;
    }

    void InitializeParams() override
    {
    }

    uint32_t m_threshold{0};
};

NS_OBJECT_ENSURE_REGISTERED(StepMarking);

/// Senders that do the same.
struct Group
{
    std::string tcp;
    uint32_t senders{0};
    uint64_t bytes{0}; // of a short flow; 0: long flows
    double gap{0};     // s, mean

    TypeId Congestion() const
    {
        return tcp == "dctcp" ? DctcpWithFloor::GetTypeId() : TcpNewReno::GetTypeId();
    }

    /// A socket of this group's TCP.
    Ptr<Socket> Open(Ptr<Node> node) const
    {
        auto socket = node->GetObject<TcpL4Protocol>()->CreateSocket(Congestion());
        socket->SetAttribute("UseEcn", StringValue(tcp == "newreno" ? "Off" : "On"));
        return socket;
    }
};

/// What the command line settles beside TCP.
struct Settings : Tcp
{
    double rate{1e10};    // bit/s
    double rtt{100e-6};   // s, propagation only
    uint32_t buffer{250}; // packets
    uint32_t k{50};       // packets
    uint32_t window{1000}; // segments, the largest
    uint32_t rounds{6};   // surges
    double start{0.5};    // s
    double interval{0.5}; // s
    uint32_t seed{1};
    double limit{3.5};       // s of simulated time
    double wallLimit{3600};  // s of real time
    std::string groupsText{"dctcp:40:29200:1.2e-6,dctcp:5"};
    std::vector<Group> groups;

    /// Reads the groups; false when one is none.
    bool Parse()
    {
        std::istringstream all(groupsText);
        for (std::string one; std::getline(all, one, ',');)
        {
            std::replace(one.begin(), one.end(), ':', ' ');
            std::istringstream words(one);
            Group group;
            if (!(words >> group.tcp >> group.senders) || group.senders == 0 ||
                (group.tcp != "dctcp" && group.tcp != "ecn" && group.tcp != "newreno"))
            {
                return false;
            }
            if (words >> group.bytes && (group.bytes == 0 || !(words >> group.gap) || group.gap <= 0))
            {
                return false;
            }
            groups.push_back(group);
        }
        return !groups.empty() && groups.front().bytes > 0;
    }
};

/// A connection and what it carries.
class Flow : public SimpleRefCount<Flow>, public Source
{
  public:
    Flow(uint32_t group, uint32_t sender, uint32_t round, uint64_t bytes)
        : m_group(group),
          m_sender(sender),
          m_round(round),
          m_left(bytes)
    {
        m_owed = bytes;
        m_closes = true;
    }

    void Connect(Ptr<Socket> socket, InetSocketAddress to)
    {
        m_started = Simulator::Now();
        ConnectTo(socket, to);
    }

    void GetSockName(Address& name) const
    {
        m_socket->GetSockName(name);
    }

    const uint32_t m_group;
    const uint32_t m_sender;
    const uint32_t m_round;
    uint64_t m_left; // bytes that the receiver has not got
    Time m_started;
};

/// The run, and what is counted.
class Surges
{
  public:
    explicit Surges(const Settings& settings)
        : m_set(settings),
          m_left(settings.rounds, 0)
    {
        m_random = CreateObject<ExponentialRandomVariable>();
        m_order = CreateObject<UniformRandomVariable>();
        Build();
        for (uint32_t group = 0; group < m_set.groups.size(); ++group)
        {
            Plan(group);
        }
    }

    void Run()
    {
        Simulator::Stop(Seconds(m_set.limit));
        Report(RunFor(m_set.wallLimit, "ns3_surges"));
        Simulator::Destroy();
    }

  private:
    /// When which sender of a group begins.
    void Plan(uint32_t number)
    {
        const Group& group = m_set.groups[number];
        if (group.bytes == 0)
        {
            for (uint32_t sender = 0; sender < group.senders; ++sender)
            {
                Simulator::Schedule(Seconds(0), &Surges::Begin, this, number, sender, 0);
            }
            return;
        }
        m_flowsLeft += group.senders * m_set.rounds;
        for (uint32_t round = 0; round < m_set.rounds; ++round)
        {
            double at = m_set.start + m_set.interval * round;
            std::vector<uint32_t> order(group.senders);
            for (uint32_t i = 0; i < group.senders; ++i)
            {
                order[i] = i;
                std::swap(order[i], order[m_order->GetInteger(0, i)]);
            }
            for (auto sender : order)
            {
                Simulator::Schedule(Seconds(at), &Surges::Begin, this, number, sender, round);
                at += m_random->GetValue(group.gap, 0);
            }
        }
    }

    void Build()
    {
        PointToPointHelper link = Links(m_set.rate, m_set.rtt / 6);
        NodeContainer switches(2);
        InternetStackHelper stack;
        stack.Install(switches);
        TrafficControlHelper none;
        Ipv4AddressHelper address("10.0.0.0", "255.255.255.252");
        auto join = [&](Ptr<Node> one, Ptr<Node> other) {
            auto devices = link.Install(one, other);
            auto addresses = address.Assign(devices);
            none.Uninstall(devices);
            address.NewNetwork();
            return std::make_pair(devices, addresses);
        };
        auto route = [](Ptr<Node> node, Ipv4Address to) {
            Ipv4StaticRoutingHelper().GetStaticRouting(node->GetObject<Ipv4>())->SetDefaultRoute(to, 1);
        };
        auto host = [&](Ptr<Node> at) {
            auto node = CreateObject<Node>();
            stack.Install(node);
            auto joined = join(node, at);
            route(node, joined.second.GetAddress(1));
            return std::make_pair(node, joined.second.GetAddress(0));
        };
        auto core = join(switches.Get(0), switches.Get(1));
        route(switches.Get(0), core.second.GetAddress(1));
        route(switches.Get(1), core.second.GetAddress(0));
        SetPort(DynamicCast<PointToPointNetDevice>(core.first.Get(0)));

        auto receiver = host(switches.Get(1));
        for (uint32_t number = 0; number < m_set.groups.size(); ++number)
        {
            const Group& group = m_set.groups[number];
            auto to = group.bytes > 0 ? receiver : host(switches.Get(1));
            // A port of its own: the receiver's end takes its TCP from the socket that listens.
            InetSocketAddress at(to.second, 5000 + number);
            auto listener = group.Open(to.first);
            listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), at.GetPort()));
            listener->Listen();
            listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                        MakeCallback(&Surges::Accepted, this));
            m_listeners.push_back(listener);
            m_to.push_back(at);
            std::vector<Ptr<Node>> senders;
            for (uint32_t i = 0; i < group.senders; ++i)
            {
                senders.push_back(host(switches.Get(0)).first);
            }
            m_senders.push_back(senders);
        }
    }

    void SetPort(Ptr<PointToPointNetDevice> device)
    {
        // The packet that waits in the device counts.
        device->GetQueue()->SetMaxSize(QueueSize("1p"));
        TrafficControlHelper marking;
        marking.SetRootQueueDisc("ackgate::StepMarking",
                                 "MaxSize", QueueSizeValue(QueueSize(PACKETS, m_set.buffer - 1)),
                                 "Threshold", UintegerValue(m_set.k));
        auto disc = marking.Install(device).Get(0);
        disc->TraceConnectWithoutContext("Drop", MakeCallback(&Surges::Dropped, this));
        disc->TraceConnectWithoutContext("BytesInQueue", MakeCallback(&Surges::QueueChanged, this));
        device->GetQueue()->TraceConnectWithoutContext("BytesInQueue", MakeCallback(&Surges::QueueChanged, this));
        device->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&Surges::Sent, this));
    }

    void Begin(uint32_t group, uint32_t sender, uint32_t round)
    {
        const Group& of = m_set.groups[group];
        if (group == 0)
        {
            if (!m_window)
            {
                m_window = true;
                m_began = Simulator::Now();
            }
            if (m_left[round] == 0)
            {
                CountQueue();
                m_left[round] = of.senders;
                ++m_underWay;
            }
        }
        auto flow = Create<Flow>(group, sender, round, of.bytes ? of.bytes : std::numeric_limits<uint64_t>::max());
        flow->Connect(of.Open(m_senders[group][sender]), m_to[group]);
        Address name;
        flow->GetSockName(name);
        // The socket is bound to any address: its port alone, and the sender's node.
        auto port = InetSocketAddress::ConvertFrom(name).GetPort();
        auto own = m_senders[group][sender]->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
        m_flows[{own.Get(), port}] = flow;
    }

    void Accepted(Ptr<Socket> socket, const Address& from)
    {
        auto peer = InetSocketAddress::ConvertFrom(from);
        auto flow = m_flows.at({peer.GetIpv4().Get(), peer.GetPort()});
        socket->SetRecvCallback(MakeCallback(&Surges::Arrived, this, flow));
        socket->SetCloseCallbacks(MakeCallback(&Surges::Closed, this), MakeCallback(&Surges::Closed, this));
    }

    void Closed(Ptr<Socket> socket)
    {
        socket->Close();
    }

    void Arrived(Ptr<Flow> flow, Ptr<Socket> socket)
    {
        uint64_t bytes = 0;
        while (Ptr<Packet> packet = socket->Recv())
        {
            bytes += packet->GetSize();
        }
        flow->m_left -= bytes;
        if (m_window)
        {
            (flow->m_group == 0 ? m_bytes : m_beside) += bytes;
        }
        if (flow->m_left == 0 && bytes > 0)
        {
            End(*flow);
        }
    }

    void End(const Flow& flow)
    {
        double ms = (Simulator::Now() - flow.m_started).GetSeconds() * 1e3;
        auto& sender = m_means[{flow.m_group, flow.m_sender}];
        sender = {sender.first + ms, sender.second + 1};
        if (flow.m_group == 0)
        {
            m_ms.push_back(ms);
            if (--m_left[flow.m_round] == 0)
            {
                CountQueue();
                --m_underWay;
                ++m_finished;
            }
            if (m_finished == m_set.rounds)
            {
                m_ended = Simulator::Now();
                m_window = false;
            }
        }
        if (--m_flowsLeft == 0)
        {
            Simulator::Stop();
        }
    }

    void Dropped(Ptr<const QueueDiscItem>)
    {
        ++m_drops;
    }

    void QueueChanged(uint32_t before, uint32_t after)
    {
        CountQueue();
        m_queue += int64_t(after) - before;
    }

    /// Adds up the queue until now.
    void CountQueue()
    {
        double time = (Simulator::Now() - m_counted).GetSeconds();
        m_counted = Simulator::Now();
        if (m_window)
        {
            m_filled += m_queue * time;
        }
        if (m_underWay == 0)
        {
            m_calmFilled += m_queue * time;
            m_calm += time;
        }
    }

    void Sent(Ptr<const Packet> packet)
    {
        if (m_window)
        {
            m_carried += packet->GetSize();
        }
    }

    void Report(double wall)
    {
        CountQueue();
        if (m_window)
        {
            m_ended = Simulator::Now();
        }
        double seconds = (m_ended - m_began).GetSeconds();
        uint64_t timeouts = 0;
        for (auto& [name, flow] : m_flows)
        {
            timeouts += flow->m_timeouts;
        }
        double sum = 0;
        for (double ms : m_ms)
        {
            sum += ms;
        }
        std::sort(m_ms.begin(), m_ms.end());
        double least = std::numeric_limits<double>::infinity();
        double most = 0;
        for (auto& [name, sender] : m_means)
        {
            least = std::min(least, sender.first / sender.second);
            most = std::max(most, sender.first / sender.second);
        }
        auto mbps = [&](uint64_t bytes) { return bytes * 8 / seconds / 1e6; };
        std::printf("{\"simulator\":\"ns-3\",\"seed\":%u,\"rounds\":%u,\"goodput_mbps\":%.3f,"
                    "\"background_goodput_mbps\":%.3f,\"rto_timeouts\":%lu,\"drops\":%lu,\"flows\":%zu,"
                    "\"flow_ms_mean\":%.4f,\"flow_ms_p50\":%.4f,\"flow_ms_max\":%.4f,\"fct_least_ms\":%.4f,\"fct_most_ms\":%.4f,"
                    "\"queue_bytes_mean\":%.1f,\"calm_queue_bytes\":%.1f,\"link_use\":%.5f,\"window_s\":%.6f,"
                    "\"events\":%lu,\"wall_s\":%.6f,\"peak_kib\":%ld}\n",
                    m_set.seed,
                    m_finished,
                    mbps(m_bytes),
                    mbps(m_beside),
                    timeouts,
                    m_drops,
                    m_ms.size(),
                    sum / std::max<size_t>(m_ms.size(), 1),
                    m_ms.empty() ? 0 : m_ms[(m_ms.size() - 1) / 2],
                    m_ms.empty() ? 0 : m_ms.back(),
                    least,
                    most,
                    m_filled / seconds,
                    m_calmFilled / m_calm,
                    mbps(m_carried) * 1e6 / m_set.rate,
                    seconds,
                    Simulator::GetEventCount(),
                    wall,
                    PeakKib());
    }

    Settings m_set;
    Ptr<ExponentialRandomVariable> m_random;
    Ptr<UniformRandomVariable> m_order;
    std::vector<std::vector<Ptr<Node>>> m_senders; // by group
    std::vector<InetSocketAddress> m_to;           // by group
    std::vector<Ptr<Socket>> m_listeners;
    std::map<std::pair<uint32_t, uint16_t>, Ptr<Flow>> m_flows; // by address and port of the sender
    std::map<std::pair<uint32_t, uint32_t>, std::pair<double, double>> m_means; // ms and flows, by group and sender
    std::vector<double> m_ms;     // times of the first group's flows
    std::vector<uint32_t> m_left; // flows of each surge of the first group
    uint32_t m_underWay{0};       // surges
    uint32_t m_finished{0};       // surges
    uint64_t m_flowsLeft{0};
    bool m_window{false};
    Time m_began;
    Time m_ended;
    uint64_t m_bytes{0};
    uint64_t m_beside{0};
    uint64_t m_carried{0};
    uint64_t m_drops{0};
    int64_t m_queue{0};
    Time m_counted;
    double m_filled{0};
    double m_calmFilled{0};
    double m_calm{0};
};

} // namespace

int
main(int argc, char* argv[])
{
    Settings set;
    CommandLine cmd(__FILE__);
    set.Describe(cmd);
    cmd.AddValue("groups", "tcp:senders for long flows, tcp:senders:bytes:gap for short ones, with commas; the figures are of the first", set.groupsText);
    cmd.AddValue("rate", "rate of every link, bit/s", set.rate);
    cmd.AddValue("rtt", "round trip of propagation, s", set.rtt);
    cmd.AddValue("buffer", "buffer of the port between the switches, packets", set.buffer);
    cmd.AddValue("k", "marking threshold, packets", set.k);
    cmd.AddValue("window", "largest window, segments", set.window);
    cmd.AddValue("rounds", "surges", set.rounds);
    cmd.AddValue("start", "first surge, s", set.start);
    cmd.AddValue("interval", "from one surge to the next, s", set.interval);
    cmd.AddValue("seed", "seed", set.seed);
    cmd.AddValue("limit_s", "longest simulated time, s", set.limit);
    cmd.AddValue("wall_limit_s", "longest real time, s", set.wallLimit);
    cmd.Parse(argc, argv);
    if (!set.Parse() || set.rounds == 0 || set.rate <= 0 || set.mss == 0 || set.buffer < 2 || set.interval <= 0)
    {
        std::cerr << "ns3_surges: groups are such as dctcp:40:29200:1.2e-6,ecn:5 with dctcp, ecn or newreno, short flows first; "
                     "rounds, rate, mss and interval must be positive, buffer at least 2\n";
        return 2;
    }
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(set.seed);
    set.SetDefaults();
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(set.window * set.mss));
    Surges(set).Run();
    return 0;
}
