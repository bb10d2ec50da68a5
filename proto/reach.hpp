// proto/reach.hpp - whether another node's endpoint can be reached from this machine, and if not,
// the likely cause. ZeroMQ connects in the background and says nothing of what fails. Blocks: for a
// name that no server of names answers, as long as the system's resolver does; else for `patience`.
// Threads: any.
#pragma once

#include <string>

#include "base/time.hpp"

namespace rubato::proto {

struct Reach {
  enum class Outcome {
    Answers,      // a node of ours, or another program that speaks ZeroMQ
    Mute,         // connected, and nothing that speaks ZeroMQ is there
    Refused,      // the machine is there, the port is not
    TimedOut,     // no packet came back
    NoRoute,      // no way to that network
    UnknownName,  // no address belongs to the name
  };
  Outcome outcome = Outcome::TimedOut;
  std::string address = {};  // the one that answers, else all that were tried: "10.0.0.2, fd00::2"
  bool encrypted = false;    // Answers: it wants CURVE
  std::string itself = {};   // named_loopback() of the name, if it has no other address

  bool good() const { return outcome == Outcome::Answers; }
};

// `host`: a name or an address, one of IPv6 also in brackets. Tries all addresses of a name, each
// for `patience`, until one answers. The connection is closed again at once.
Reach reach(const std::string& host, int port, Duration patience);

// "nothing listens there: is it running, and is this its port?"
std::string likely_cause(const Reach& reach);

// Why short messages pass and long ones do not, with the remedy.
inline constexpr const char* kLargePacketsLost =
    "large packets are lost on the way: its MTU is smaller than those of the boxes, as that of a "
    "VPN "
    "may be, and nobody tells them. On both boxes run `sysctl -w net.ipv4.tcp_mtu_probing=1`, or "
    "give "
    "their interfaces the MTU of the way (`ip link set dev NAME mtu 1000`)";

}  // namespace rubato::proto
