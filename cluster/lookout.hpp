// cluster/lookout.hpp - why another node is not heard. While it is silent, looks from time to time
// whether its endpoint can be reached, and has a line that says the likely cause and the remedy.
// Threads: one owner. Each look has a thread of its own, which ends by itself and is not waited
// for: the system's resolver may take half a minute. There is one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "proto/endpoint.hpp"
#include "proto/reach.hpp"

namespace rubato::cluster {

struct LookTiming {
  Duration silence = Duration::from_seconds(1);   // before the first look
  Duration patience = Duration::from_seconds(2);  // of a look
  Duration every = Duration::from_seconds(5);     // from the begin of a look to the next one
  // A node that can be reached has nothing to say yet: it is in order.
  bool may_be_silent = false;
  // It answers short messages and no long one. What there is to look at is its address.
  bool loses_large = false;
};

class Lookout {
 public:
  // `who`: "server 1". An endpoint that is not "tcp://HOST:PORT" is not looked at.
  Lookout(std::string who, const std::string& endpoint, const LookTiming& timing = {});

  // To be called several times a second while the node is silent; the first call begins the
  // silence. Returns: "cannot reach server 1 at tcp://pi-3:5701 (10.0.0.3): ...", when that is news
  // or was not said for 30 s.
  std::optional<std::string> poll(Instant now);
  // The node spoke: its next silence begins. It is longer than the first one before it is looked
  // at, for a node that has joined speaks every few seconds. Returns: whether a line was said of
  // this silence.
  bool on_heard(Instant now);

 private:
  struct Look;
  void begin(Instant now);
  std::string line() const;

  std::string who_;
  std::string endpoint_;
  std::optional<proto::Endpoint> target_;
  LookTiming timing_;
  std::optional<Instant> since_;
  std::optional<Instant> looked_at_;
  std::shared_ptr<Look> look_;  // under way
  std::optional<proto::Reach> found_;
  std::string said_;
  Instant said_at_;
};

}  // namespace rubato::cluster
