// Consecutive transfers over a lossy last hop in one ns-3 process; speed.py builds and runs this program.
//
// source --wired-- base --hop-- mobile, as in transfer.toml. Each transfer has a connection of its own, which both ends
// close. Prints one line of JSON: the duration of each transfer in seconds, from the SYN to the last byte at the
// receiver; the number of transfers whose connection broke; and with --count=1 the frames that the hop's two devices
// have transmitted.
#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/command-line.h"
#include "ns3/data-rate.h"
#include "ns3/double.h"
#include "ns3/error-model.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-global-routing-helper.h"
#include "ns3/node-container.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/pointer.h"
#include "ns3/queue-size.h"
#include "ns3/random-variable-stream.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/socket.h"
#include "ns3/string.h"
#include "ns3/tcp-socket-base.h"
#include "ns3/tcp-socket-factory.h"
#include "ns3/traffic-control-helper.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <iostream>
#include <vector>

using namespace ns3;

namespace
{
// Loss of data frames: independent, or of a state that may change after each frame.
class DataErrors : public ErrorModel
{
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        if (packet->GetSize() <= 100)
        {
            return false;
        }
        if (m_badToGood >= 1)
        {
            return m_random->GetValue() < m_loss;
        }
        const bool lost = m_bad;
        if (m_random->GetValue() < (m_bad ? m_badToGood : m_goodToBad))
        {
            m_bad = !m_bad;
        }
        return lost;
    }

    void DoReset() override
    {
        m_bad = false;
    }

    Ptr<UniformRandomVariable> m_random = CreateObject<UniformRandomVariable>();
    double m_loss, m_badToGood, m_goodToBad;
    bool m_bad = false;

  public:
    DataErrors(double loss, double burst)
        : m_loss(loss),
          m_badToGood(1 / burst),
          m_goodToBad(loss / (burst * (1 - loss)))
    {
    }
};

uint64_t g_down, g_up;

void
CountDown(Ptr<const Packet>)
{
    ++g_down;
}

void
CountUp(Ptr<const Packet>)
{
    ++g_up;
}

// Transfers that follow one another.
class Transfers
{
  public:
    Transfers(Ptr<Node> source, Ptr<Node> mobile, Ipv4Address to, uint64_t bytes, uint32_t segment, uint32_t count)
        : m_source(source),
          m_to(to, 9),
          m_bytes(bytes),
          m_segment(segment),
          m_count(count)
    {
        m_listener = Socket::CreateSocket(mobile, TcpSocketFactory::GetTypeId());
        m_listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), 9));
        m_listener->Listen();
        m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                      MakeCallback(&Transfers::Accept, this));
    }

    void Begin()
    {
        m_left = m_bytes;
        m_received = 0;
        m_begin = Simulator::Now();
        m_done = false;
        m_socket = Socket::CreateSocket(m_source, TcpSocketFactory::GetTypeId());
        m_socket->SetConnectCallback(MakeCallback(&Transfers::Connected, this),
                                     MakeCallback(&Transfers::Failed, this));
        m_socket->SetCloseCallbacks(MakeNullCallback<void, Ptr<Socket>>(), MakeCallback(&Transfers::Failed, this));
        m_socket->SetSendCallback(MakeCallback(&Transfers::Fill, this));
        m_socket->Connect(m_to);
    }

    std::vector<double> m_seconds;
    uint32_t m_failed = 0;

  private:
    void Accept(Ptr<Socket> socket, const Address&)
    {
        socket->SetRecvCallback(MakeCallback(&Transfers::Read, this));
        socket->SetCloseCallbacks(MakeCallback(&Transfers::CloseToo, this), MakeCallback(&Transfers::Failed, this));
    }

    void Read(Ptr<Socket> socket)
    {
        while (Ptr<Packet> packet = socket->Recv())
        {
            m_received += packet->GetSize();
        }
        if (!m_done && m_received >= m_bytes)
        {
            m_seconds.push_back((Simulator::Now() - m_begin).GetSeconds());
            Next();
        }
    }

    void CloseToo(Ptr<Socket> socket)
    {
        socket->Close();
    }

    void Connected(Ptr<Socket> socket)
    {
        Fill(socket, socket->GetTxAvailable());
    }

    void Failed(Ptr<Socket>)
    {
        if (!m_done)
        {
            ++m_failed;
            Next();
        }
    }

    void Fill(Ptr<Socket> socket, uint32_t)
    {
        while (m_left > 0)
        {
            const auto size = std::min<uint64_t>({m_left, m_segment, socket->GetTxAvailable()});
            if (size < std::min<uint64_t>(m_left, m_segment) || socket->Send(Create<Packet>(size)) < 0)
            {
                return;
            }
            m_left -= size;
            if (m_left == 0)
            {
                socket->Close();
            }
        }
    }

    void Next()
    {
        m_done = true;
        if (m_seconds.size() + m_failed < m_count)
        {
            Simulator::Schedule(Seconds(1), &Transfers::Begin, this);
        }
        else
        {
            Simulator::Stop(Seconds(1));
        }
    }

    Ptr<Node> m_source;
    InetSocketAddress m_to;
    uint64_t m_bytes, m_left = 0, m_received = 0;
    uint32_t m_segment, m_count;
    Ptr<Socket> m_listener, m_socket;
    Time m_begin;
    bool m_done = false;
};

NetDeviceContainer
Link(Ptr<Node> one, Ptr<Node> other, std::string rate, double delayMs, uint32_t queue)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(uint64_t(delayMs * 1000 + 0.5))));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(queue) + "p"));
    return link.Install(one, other);
}
} // namespace

int
main(int argc, char* argv[])
{
    std::string scheme = "newreno", wiredRate = "10Mbps", rate = "1.5Mbps";
    double wiredDelay = 0.2, delay = 1, loss = 0.0225, burst = 1, minRto = 1000;
    uint32_t queue = 50, transfers = 1, segment = 1448, buffer = 4 << 20, initial = 10;
    uint64_t bytes = 8 << 20, seed = 1;
    bool count = false;
    CommandLine cmd(__FILE__);
    cmd.AddValue("scheme", "newreno, linuxreno, cubic or bbr", scheme);
    cmd.AddValue("wired-rate", "rate of the first link", wiredRate);
    cmd.AddValue("wired-delay", "its delay in ms", wiredDelay);
    cmd.AddValue("rate", "rate of the hop", rate);
    cmd.AddValue("delay", "its delay in ms", delay);
    cmd.AddValue("loss", "share of the data frames that the hop loses", loss);
    cmd.AddValue("burst", "mean number of consecutive losses", burst);
    cmd.AddValue("queue", "packets in front of the hop", queue);
    cmd.AddValue("bytes", "bytes of a transfer", bytes);
    cmd.AddValue("segment", "payload of a segment in bytes", segment);
    cmd.AddValue("buffer", "socket buffers in bytes", buffer);
    cmd.AddValue("initial", "initial window in segments", initial);
    cmd.AddValue("min-rto", "minimum retransmission timeout in ms", minRto);
    cmd.AddValue("transfers", "number of transfers", transfers);
    cmd.AddValue("seed", "run", seed);
    cmd.AddValue("count", "count the frames of the hop", count);
    cmd.Parse(argc, argv);
    const bool bbr = scheme == "bbr", cubic = scheme == "cubic", linuxReno = scheme == "linuxreno";
    if ((!bbr && !cubic && !linuxReno && scheme != "newreno") || burst < 1 || loss < 0 || loss >= 1 || transfers == 0)
    {
        std::cerr << "ns3_transfer: the scheme is newreno, linuxreno, cubic or bbr; burst >= 1, 0 <= loss < 1, "
                     "transfers >= 1\n";
        return 2;
    }
    RngSeedManager::SetRun(seed);
    const std::string type = bbr         ? "ns3::TcpBbr"
                             : cubic     ? "ns3::TcpCubic"
                             : linuxReno ? "ns3::TcpLinuxReno"
                                         : "ns3::TcpNewReno";
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName(type)));
    // RFC 6675 halves the window at once; CUBIC's kernel has proportional rate reduction, as lasthop's linux-6.18.
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType",
                       TypeIdValue(TypeId::LookupByName(cubic ? "ns3::TcpPrrRecovery" : "ns3::TcpClassicRecovery")));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(uint64_t(minRto))));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(initial));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(15));
    Config::SetDefault("ns3::TcpSocketState::EnablePacing", BooleanValue(bbr));

    NodeContainer nodes(3);
    InternetStackHelper stack;
    stack.Install(nodes);
    const auto wired = Link(nodes.Get(0), nodes.Get(1), wiredRate, wiredDelay, 10000);
    const auto hop = Link(nodes.Get(1), nodes.Get(2), rate, delay, queue);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.1.0", "255.255.255.0");
    addresses.Assign(wired);
    addresses.SetBase("10.0.2.0", "255.255.255.0");
    const auto to = addresses.Assign(hop).GetAddress(1);
    // The device's queue is the only one.
    TrafficControlHelper control;
    control.Uninstall(wired);
    control.Uninstall(hop);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    if (loss > 0)
    {
        hop.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(Create<DataErrors>(loss, burst)));
    }
    if (count)
    {
        hop.Get(0)->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&CountDown));
        hop.Get(1)->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&CountUp));
    }

    Transfers all(nodes.Get(0), nodes.Get(2), to, bytes, segment, transfers);
    Simulator::Schedule(Seconds(0), &Transfers::Begin, &all);
    Simulator::Run();
    std::cout.precision(9);
    std::cout << "{\"seconds\": [";
    for (size_t at = 0; at < all.m_seconds.size(); ++at)
    {
        std::cout << (at ? ", " : "") << all.m_seconds[at];
    }
    std::cout << "], \"failed\": " << all.m_failed << ", \"down\": " << g_down << ", \"up\": " << g_up << "}" << std::endl;
    Simulator::Destroy();
    return all.m_seconds.size() + all.m_failed == transfers ? 0 : 1;
}
