// tests/sync/trace.hpp - golden traces of the sync models as text: every line is an event and what
// the model answered, "commit 2 -> apply 0 1 2; release 0 1 2". A test runs the events again and
// compares the whole text, so that a failure shows the two traces side by side.
// Events of a gate:  join W... | leave W | commit W, each after "at T" where time matters |
//                    phase N W:FROM... W:out...
// Events of a rule:  T start | T step | T sent | T reply OVERHEAD | T rate R |
//                    T steps N | T period SECONDS
// Events of a tuner: T start | T join W | T leave W |
//                    T progress W COMMITS STEP_SECONDS OVERHEAD [STEPS [BATCH]] |
//                    T eval LOSS | T wakeup
// T, STEP_SECONDS and OVERHEAD are seconds; W worker ids.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <sstream>
#include <string>

#include "sync/model.hpp"

namespace rubato::sync {

inline Instant at_seconds(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

// Returns: `trace` with what follows "->" in every line replaced by `answer` to the words before.
inline std::string replay(const std::string& trace,
                          const std::function<std::string(std::istringstream&)>& answer) {
  std::istringstream lines(trace);
  std::string result = "\n";
  std::string line;
  std::getline(lines, line);  // a raw string begins with a line feed
  while (std::getline(lines, line)) {
    const std::size_t arrow = line.find("->");
    const std::string left = line.substr(0, arrow);
    std::istringstream event(left);
    const std::string said = answer(event);
    result += left;
    if (!said.empty()) {
      result += left.ends_with(' ') ? "-> " : " -> ";
      result += said;
    }
    result += '\n';
  }
  return result;
}

inline Phase read_phase(std::istringstream& event) {
  Phase phase;
  event >> phase.number;
  for (std::string word; event >> word;) {
    const WorkerId worker{static_cast<std::uint32_t>(std::stoul(word))};
    const std::string what = word.substr(word.find(':') + 1);
    phase.apart[worker].excluded = what == "out";
    if (what != "out") phase.apart[worker].from = std::stoull(what);
  }
  return phase;
}

inline std::string replay_gate(Gate& gate, const std::string& trace) {
  const auto list = [](const char* name, const std::vector<WorkerId>& workers) {
    std::string text;
    for (const WorkerId worker : workers) text += fmt::format(" {}", worker.value);
    return workers.empty() ? text : name + text;
  };
  return replay(trace, [&](std::istringstream& event) {
    std::string kind;
    event >> kind;
    Instant now;
    if (kind == "at") {
      double seconds = 0;
      event >> seconds >> kind;
      now = at_seconds(seconds);
    }
    GateActions actions;
    if (kind == "phase") {
      actions = gate.on_phase(now, read_phase(event));
    }
    for (std::uint32_t id = 0; event >> id;) {
      if (kind == "join") gate.on_join(now, {id});
      if (kind == "leave") actions = gate.on_leave(now, {id});
      if (kind == "commit") actions = gate.on_commit(now, {id});
    }
    std::string said;
    const auto say = [&](const std::string& text) {
      if (!text.empty()) said += (said.empty() ? "" : "; ") + text;
    };
    for (const auto& [worker, weight] : actions.collect)
      say(fmt::format("collect {} x {:.4g}", worker.value, weight));
    if (actions.flush) say("flush");
    say(list("forget", actions.forget));
    for (const bool later : {false, true}) {
      std::string text;
      for (const auto& [worker, part, is_later] : actions.remember)
        if (is_later == later)
          text +=
              fmt::format(" {}{}", worker.value, part == 1 ? "" : fmt::format(" x {:.4g}", part));
      if (!text.empty()) say((later ? "later" : "remember") + text);
    }
    if (actions.memory == GateActions::Memory::ApplyAsCommit) say("memory as commit");
    if (actions.memory == GateActions::Memory::ApplyAsMean) say("memory as mean");
    if (actions.turn) say("turn");
    say(list("apply", actions.apply));
    say(list("release", actions.release));
    return said;
  });
}

inline std::string replay_rule(CommitRule& rule, const std::string& trace) {
  return replay(trace, [&](std::istringstream& event) -> std::string {
    double seconds = 0, value = 0;
    std::string kind;
    event >> seconds >> kind >> value;
    const Instant now = at_seconds(seconds);
    if (kind == "start" || kind == "return") rule.on_start(now, kind == "start");
    if (kind == "sent") rule.on_commit_sent(now);
    if (kind == "reply") rule.on_reply(now, Duration::from_seconds(value));
    if (kind == "rate") rule.on_directive(now, {.commit_rate = value});
    if (kind == "steps") rule.on_directive(now, {.local_steps = static_cast<std::uint32_t>(value)});
    if (kind == "period") rule.on_directive(now, {.period = Duration::from_seconds(value)});
    if (kind == "step") return rule.on_step_end(now) ? "commit" : "train on";
    return "";
  });
}

// What a tuner has to say, decisions first: `R=4 "why"; 0:4 1:4` are worker ids and their rates.
inline std::string drain(Tuner& tuner) {
  std::string text;
  while (const auto decision = tuner.poll_decision()) {
    text +=
        fmt::format("{}R={} \"{}\"", text.empty() ? "" : "; ", decision->value, decision->reason);
  }
  std::string orders;
  while (const auto order = tuner.poll_order()) {
    const Directive& d = order->directive;
    orders += fmt::format(" {}:", order->worker.value);
    if (d.batch > 0) {
      orders += fmt::format("batch {} weight {:g}", d.batch, d.weight);
    } else if (d.weight != 1) {
      orders += fmt::format("weight {:g}", d.weight);
    } else if (d.local_steps > 0) {
      orders += fmt::format("{} steps", d.local_steps);
    } else if (d.period > Duration{}) {
      orders += fmt::format("{} s", d.period.seconds());
    } else {
      orders += fmt::format("{}", d.commit_rate);
    }
  }
  if (orders.empty()) return text;
  return text.empty() ? orders.substr(1) : text + ";" + orders;
}

inline std::string replay_tuner(Tuner& tuner, const std::string& trace) {
  return replay(trace, [&](std::istringstream& event) {
    double seconds = 0;
    std::string kind;
    event >> seconds >> kind;
    const Instant now = at_seconds(seconds);
    if (kind == "start") tuner.on_start(now);
    if (kind == "wakeup") tuner.on_wakeup(now);
    if (kind == "eval") {
      double loss = 0;
      event >> loss;
      tuner.on_evaluation(now, {.at = now, .loss = loss, .accuracy = 0});
    }
    std::uint32_t id = 0;
    event >> id;
    if (kind == "join") tuner.on_join(now, {id});
    if (kind == "leave") tuner.on_leave(now, {id});
    if (kind == "progress") {
      WorkerProgress progress;
      double step = 0, overhead = 0;
      event >> progress.commits >> step >> overhead >> progress.steps >> progress.batch;
      progress.step_time = Duration::from_seconds(step);
      progress.overhead = Duration::from_seconds(overhead);
      tuner.on_progress(now, {id}, progress);
    }
    return drain(tuner);
  });
}

}  // namespace rubato::sync
