// Datagrams over ns-3's Wi-Fi: stations send to their access point, or it sends to them, at fixed rates.
//
// Built and run by wifi.py. Prints one line of JSON: throughput of each station in Mbps, delays in ms, and the processor
// time in seconds.
#include "ns3/command-line.h"
#include "ns3/config.h"
#include "ns3/error-model.h"
#include "ns3/mobility-helper.h"
#include "ns3/packet-socket-address.h"
#include "ns3/packet-socket-factory.h"
#include "ns3/packet-socket-helper.h"
#include "ns3/queue-size.h"
#include "ns3/random-variable-stream.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/socket.h"
#include "ns3/ssid.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"
#include "ns3/double.h"
#include "ns3/boolean.h"
#include "ns3/pointer.h"
#include "ns3/wifi-helper.h"
#include "ns3/wifi-mac-helper.h"
#include "ns3/wifi-mac.h"
#include "ns3/wifi-net-device.h"
#include "ns3/wifi-phy.h"
#include "ns3/yans-wifi-channel.h"
#include "ns3/yans-wifi-helper.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <iostream>
#include <vector>

using namespace ns3;

namespace
{
Time g_from;
std::vector<double> g_delays;
std::vector<uint64_t> g_bytes;

// Loss of data frames. Control frames, which are short, arrive.
class DataErrors : public RateErrorModel
{
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        return packet->GetSize() > 200 && m_random->GetValue() < m_loss;
    }

    Ptr<UniformRandomVariable> m_random = CreateObject<UniformRandomVariable>();
    double m_loss;

  public:
    explicit DataErrors(double loss)
        : m_loss(loss)
    {
    }
};

// A source that sends a datagram at each interval.
struct Source
{
    Ptr<Socket> socket;
    PacketSocketAddress to;
    Time interval;
    uint32_t size;
    uint32_t station;

    void Send()
    {
        std::vector<uint8_t> bytes(size, 0);
        const int64_t now = Simulator::Now().GetNanoSeconds();
        std::memcpy(bytes.data(), &now, sizeof now);
        std::memcpy(bytes.data() + sizeof now, &station, sizeof station);
        socket->SendTo(Create<Packet>(bytes.data(), size), 0, to);
        Simulator::Schedule(interval, &Source::Send, this);
    }
};

void
Receive(Ptr<Socket> socket)
{
    while (Ptr<Packet> packet = socket->Recv())
    {
        std::vector<uint8_t> bytes(packet->GetSize());
        packet->CopyData(bytes.data(), bytes.size());
        int64_t sent;
        uint32_t station;
        std::memcpy(&sent, bytes.data(), sizeof sent);
        std::memcpy(&station, bytes.data() + sizeof sent, sizeof station);
        if (Simulator::Now() < g_from || station >= g_bytes.size())
        {
            continue;
        }
        g_bytes[station] += bytes.size();
        g_delays.push_back((Simulator::Now().GetNanoSeconds() - sent) / 1e6);
    }
}
} // namespace

int
main(int argc, char* argv[])
{
    std::string standard = "ax", mode = "HeMcs5", channel = "{0, 20, BAND_5GHZ, 0}";
    uint32_t streams = 1, stations = 1, size = 1500, guard = 800, largest = 65535, queue = 500, rts = 4692480;
    bool down = false;
    double mbps = 10, seconds = 5, warmup = 1, loss = 0;
    uint64_t seed = 1;
    CommandLine cmd(__FILE__);
    cmd.AddValue("standard", "a, n, ac or ax", standard);
    cmd.AddValue("mode", "data mode", mode);
    cmd.AddValue("channel", "channel settings", channel);
    cmd.AddValue("streams", "spatial streams", streams);
    cmd.AddValue("stations", "number of stations", stations);
    cmd.AddValue("size", "bytes of a datagram", size);
    cmd.AddValue("guard", "guard interval in ns", guard);
    cmd.AddValue("largest", "maximum size of an A-MPDU", largest);
    cmd.AddValue("queue", "packets in a queue", queue);
    cmd.AddValue("rts", "RTS threshold", rts);
    cmd.AddValue("down", "from the access point", down);
    cmd.AddValue("mbps", "rate of each station", mbps);
    cmd.AddValue("seconds", "measured time", seconds);
    cmd.AddValue("warmup", "time before", warmup);
    cmd.AddValue("loss", "loss of data frames on the air", loss);
    cmd.AddValue("seed", "run", seed);
    cmd.Parse(argc, argv);
    RngSeedManager::SetRun(seed);
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(QueueSize(std::to_string(queue) + "p")));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(100)));
    // As Linux's drivers, retransmit instead of asking for a missed acknowledgment.
    Config::SetDefault("ns3::QosTxop::UseExplicitBarAfterMissedBlockAck", BooleanValue(false));
    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(rts));

    NodeContainer ap(1), clients(stations);
    YansWifiPhyHelper phy;
    phy.SetChannel(YansWifiChannelHelper::Default().Create());
    phy.Set("ChannelSettings", StringValue(channel));
    phy.Set("Antennas", UintegerValue(streams));
    phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(streams));
    phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(streams));
    WifiHelper wifi;
    const bool legacy = standard == "a";
    wifi.SetStandard(legacy             ? WIFI_STANDARD_80211a
                     : standard == "n"  ? WIFI_STANDARD_80211n
                     : standard == "ac" ? WIFI_STANDARD_80211ac
                                        : WIFI_STANDARD_80211ax);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue(mode), "ControlMode",
                                 StringValue("OfdmRate24Mbps"));
    WifiMacHelper mac;
    const Ssid ssid("lasthop");
    mac.SetType("ns3::StaWifiMac", "Ssid", SsidValue(ssid), "QosSupported", BooleanValue(!legacy));
    NetDeviceContainer devices = wifi.Install(phy, mac, clients);
    mac.SetType("ns3::ApWifiMac", "Ssid", SsidValue(ssid), "QosSupported", BooleanValue(!legacy));
    devices = NetDeviceContainer(wifi.Install(phy, mac, ap), devices);
    if (standard == "n" || standard == "ac")
    {
        Config::Set("/NodeList/*/DeviceList/*/$ns3::WifiNetDevice/HtConfiguration/ShortGuardIntervalSupported",
                    BooleanValue(guard == 400));
    }
    if (standard == "ax")
    {
        Config::Set("/NodeList/*/DeviceList/*/$ns3::WifiNetDevice/HeConfiguration/GuardInterval",
                    TimeValue(NanoSeconds(guard)));
    }
    for (uint32_t i = 0; i < devices.GetN(); ++i)
    {
        auto device = DynamicCast<WifiNetDevice>(devices.Get(i));
        if (!legacy)
        {
            device->GetMac()->SetAttribute("BE_MaxAmpduSize", UintegerValue(largest));
        }
        if (loss > 0 && (i == 0) != down)
        {
            device->GetPhy()->SetPostReceptionErrorModel(Create<DataErrors>(loss));
        }
    }
    MobilityHelper mobility;
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(ap);
    mobility.Install(clients);
    PacketSocketHelper sockets;
    sockets.Install(ap);
    sockets.Install(clients);

    g_bytes.resize(stations);
    g_from = Seconds(2 + warmup);
    std::vector<Source> sources(stations);
    std::vector<Ptr<Socket>> receivers;
    const auto type = TypeId::LookupByName("ns3::PacketSocketFactory");
    const Time interval = Seconds(size * 8 / (mbps * 1e6));
    for (uint32_t i = 0; i < stations; ++i)
    {
        Ptr<Node> from = down ? ap.Get(0) : clients.Get(i), to = down ? clients.Get(i) : ap.Get(0);
        Ptr<NetDevice> here = devices.Get(down ? 0 : i + 1), there = devices.Get(down ? i + 1 : 0);
        PacketSocketAddress address;
        address.SetSingleDevice(here->GetIfIndex());
        address.SetPhysicalAddress(there->GetAddress());
        address.SetProtocol(1);
        auto socket = Socket::CreateSocket(from, type);
        PacketSocketAddress local;
        local.SetSingleDevice(here->GetIfIndex());
        local.SetProtocol(2);
        socket->Bind(local);
        sources[i] = Source{socket, address, interval, size, i};
        Simulator::Schedule(Seconds(2) + interval * i / stations, &Source::Send, &sources[i]);
        if (down || i == 0)
        {
            auto receiver = Socket::CreateSocket(to, type);
            PacketSocketAddress any;
            any.SetSingleDevice(there->GetIfIndex());
            any.SetProtocol(1);
            receiver->Bind(any);
            receiver->SetRecvCallback(MakeCallback(&Receive));
            receivers.push_back(receiver);
        }
    }
    Simulator::Stop(g_from + Seconds(seconds));
    const std::clock_t begin = std::clock();
    Simulator::Run();
    const double processor = double(std::clock() - begin) / CLOCKS_PER_SEC;
    std::sort(g_delays.begin(), g_delays.end());
    auto percentile = [&](double share) {
        return g_delays.empty() ? 0 : g_delays[std::min(g_delays.size() - 1, size_t(share * g_delays.size()))];
    };
    std::cout << "{\"mbps\": [";
    for (uint32_t i = 0; i < stations; ++i)
    {
        std::cout << (i ? ", " : "") << g_bytes[i] * 8 / seconds / 1e6;
    }
    std::cout << "], \"delays_ms\": [" << percentile(.5) << ", " << percentile(.95) << ", " << percentile(.99)
              << "], \"processor_s\": " << processor << "}\n";
    Simulator::Destroy();
}
