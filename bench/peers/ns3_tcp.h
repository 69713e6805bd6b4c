// What both programs for ns-3.37 share: TCP as all simulators of the comparison run it, and the clock on the wall.
//
// What is set against ns-3's habits:
//  * Timestamps are off: with them a segment of 1460 bytes makes an IP packet of 1512, which a link of MTU 1500 splits.
//  * SACK and Limited Transmit are off unless asked for, and recovery is the classic one: the defaults are SACK and PRR.
//  * A connection is given up after six timeouts in a row by default, and its round would never end: not here.
//  * Each segment is acknowledged (DelAckCount 1) unless delack says otherwise; the minimum RTO is 200 ms instead of 1 s,
//    the clock's granularity 1 ms as it comes.
//  * TcpDctcp of 3.37 lets the window shrink below one segment, after which nothing can be sent and all stand still:
//    DctcpWithFloor keeps two segments, as Linux does.

#pragma once

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/tcp-dctcp.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <string>

using namespace ns3;

namespace
{

/// DCTCP that never asks for less than two segments.
class DctcpWithFloor : public TcpDctcp
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("ackgate::DctcpWithFloor")
                                .SetParent<TcpDctcp>()
                                .AddConstructor<DctcpWithFloor>();
        return tid;
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight) override
    {
        return std::max(TcpDctcp::GetSsThresh(tcb, bytesInFlight), 2 * tcb->m_segmentSize);
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<DctcpWithFloor>(this);
    }
};

NS_OBJECT_ENSURE_REGISTERED(DctcpWithFloor);

/// What a command line settles of TCP.
struct Tcp
{
    uint32_t mss{1460};      // bytes
    double rtomin{0.2};      // s
    double rtoinit{1.0};     // s
    uint32_t iw{2};          // segments
    double gain{0.0625};     // dctcp only
    double delack{0};        // s; 0: each segment is acknowledged, else each second one
    bool limitedTransmit{false};

    void Describe(CommandLine& cmd)
    {
        cmd.AddValue("mss", "segment size, bytes", mss);
        cmd.AddValue("rtomin", "floor of the RTO, s", rtomin);
        cmd.AddValue("rtoinit", "RTO before the first measurement, s", rtoinit);
        cmd.AddValue("iw", "initial window, segments", iw);
        cmd.AddValue("gain", "weight of a new share of marks (dctcp)", gain);
        cmd.AddValue("delack", "longest time that an ACK waits for a second segment, s; 0: none waits", delack);
        cmd.AddValue("limited_transmit", "RFC 3042", limitedTransmit);
    }

    /// Makes attribute defaults of all this.
    void SetDefaults() const
    {
        Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(mss));
        Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(iw));
        Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(delack > 0 ? 2 : 1));
        if (delack > 0)
        {
            Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(Seconds(delack)));
        }
        Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 24));
        Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 24));
        Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000000));
        Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(rtoinit)));
        Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(rtomin)));
        Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
        Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
        Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(limitedTransmit));
        Config::SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(Seconds(rtoinit)));
        Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
        Config::SetDefault("ns3::TcpDctcp::DctcpShiftG", DoubleValue(gain));
    }
};

/// A connection's sending end: writes what it owes as fast as the socket takes it, and counts timeouts.
class Source
{
  public:
    uint64_t m_timeouts{0};

  protected:
    void ConnectTo(Ptr<Socket> socket, const InetSocketAddress& to)
    {
        m_socket = socket;
        m_connected = false;
        m_socket->Bind();
        m_socket->SetConnectCallback(MakeCallback(&Source::Connected, this), MakeNullCallback<void, Ptr<Socket>>());
        m_socket->SetSendCallback(MakeCallback(&Source::SpaceFree, this));
        m_socket->TraceConnectWithoutContext("RTO", MakeCallback(&Source::RtoChanged, this));
        m_socket->Connect(to);
    }

    void Push()
    {
        while (m_connected && m_owed > 0)
        {
            auto chunk = std::min<uint64_t>(m_owed, m_socket->GetTxAvailable());
            int sent = chunk > 0 ? m_socket->Send(Create<Packet>(chunk)) : 0;
            if (sent <= 0)
            {
                return;
            }
            m_owed -= sent;
            if (m_owed == 0 && m_closes)
            {
                m_socket->Close();
            }
        }
    }

    Ptr<Socket> m_socket;
    uint64_t m_owed{0};
    bool m_connected{false};
    bool m_closes{false}; // after the last byte

  private:
    void Connected(Ptr<Socket>)
    {
        m_connected = true;
        Push();
    }

    void SpaceFree(Ptr<Socket>, uint32_t)
    {
        Push();
    }

    /// A timeout doubles the timer. A measurement cannot double it exactly while the floor holds it.
    void RtoChanged(Time before, Time after)
    {
        m_timeouts += after == before + before && before.IsStrictlyPositive();
    }
};

/// Links of one rate and delay, whose queues are as good as endless until they are given a bound.
PointToPointHelper
Links(double rate, double delay)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(rate))));
    link.SetChannelAttribute("Delay", TimeValue(Seconds(delay)));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000000p"));
    return link;
}

/// Stops the simulation when it has taken so long in real time.
void
WatchClock(std::chrono::steady_clock::time_point since, double limit, const char* program)
{
    std::chrono::duration<double> wall = std::chrono::steady_clock::now() - since;
    if (wall.count() > limit)
    {
        std::cerr << program << ": stopped after " << wall.count() << " s of real time; figures cover the finished rounds\n";
        Simulator::Stop();
        return;
    }
    Simulator::Schedule(MilliSeconds(100), &WatchClock, since, limit, program);
}

/// Runs the simulation, for `limit` s of real time at most, and tells how many it took.
double
RunFor(double limit, const char* program)
{
    auto since = std::chrono::steady_clock::now();
    Simulator::Schedule(MilliSeconds(100), &WatchClock, since, limit, program);
    Simulator::Run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

/// The most memory that this process has had, in KiB.
long
PeakKib()
{
    std::ifstream status("/proc/self/status");
    std::string word;
    long kib = 0;
    while (status >> word)
    {
        if (word == "VmHWM:")
        {
            status >> kib;
        }
    }
    return kib;
}

} // namespace
