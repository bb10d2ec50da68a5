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
  std::string address;     // that the name stands for, such as "10.0.0.2"; empty: none
  bool encrypted = false;  // Answers: it wants CURVE

  bool good() const { return outcome == Outcome::Answers; }
};

// `host`: a name or an address, one of IPv6 also in brackets. The connection is closed again at
// once.
Reach reach(const std::string& host, int port, Duration patience);

// "nothing listens there: is it running, and is this its port?"
std::string likely_cause(const Reach& reach);

}  // namespace rubato::proto
