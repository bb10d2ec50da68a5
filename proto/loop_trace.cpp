#include "proto/loop_trace.hpp"

namespace rubato::proto {

LoopTrace::LoopTrace(TraceProcess process, const std::string& lane, TraceClock clock)
    : process_(process), lane_(process.lane(lane)), clock_(clock) {}

void LoopTrace::before_send(Instant now, Message& message) {
  if (clock_ == TraceClock::Scheduler) sync_.on_send(now, message);
}

void LoopTrace::on_sent(Instant began, NodeId to, const Message& message) {
  TraceArgs args{.amount = message.payload.size(), .message = body_name(message.body)};
  const auto* commit = std::get_if<Commit>(&message.body);
  if (commit) {
    args.worker = message.sender.index;
    args.sequence = commit->sequence;
    last_commit_ = {.worker = args.worker, .sequence = args.sequence};
  } else if (std::holds_alternative<Progress>(message.body)) {
    args.worker = message.sender.index;
  }
  lane_->span(Span::Send, began, steady_now(), args);
  if (commit && commit->offset == 0)
    lane_->flow(FlowPoint::Start, began, args.worker, args.sequence, to.index);
}

void LoopTrace::on_sent(Instant began, PeerId to, const Message& message) {
  TraceArgs args{.amount = message.payload.size(), .message = body_name(message.body)};
  if (message.sender.role == Role::Server) shard_ = message.sender.index;
  const auto* parameters = std::get_if<Parameters>(&message.body);
  const auto worker = parameters ? workers_.find(to) : workers_.end();
  if (worker != workers_.end()) {
    args.worker = worker->second;
    args.sequence = parameters->sequence;
  }
  lane_->span(Span::Send, began, steady_now(), args);
  if (worker != workers_.end() && parameters->offset == 0)
    lane_->flow(FlowPoint::Step, began, args.worker, args.sequence, shard_);
}

void LoopTrace::on_handled(Instant began, PeerId from, const Message& message, bool applied) {
  const Instant now = steady_now();
  if (clock_ == TraceClock::Scheduler && sync_.on_message(began, message)) {
    const auto estimate = sync_.estimate(now);
    process_.align(estimate->offset, estimate->error);
  }
  TraceArgs args{.amount = message.payload.size(), .message = body_name(message.body)};
  Span span = Span::Control;
  const auto* commit = std::get_if<Commit>(&message.body);
  if (commit) {
    span = applied ? Span::Apply : Span::Hold;
    args.worker = message.sender.index;
    args.sequence = commit->sequence;
    workers_[from] = args.worker;
  } else if (const auto* parameters = std::get_if<Parameters>(&message.body)) {
    span = Span::Gather;
    args.sequence = parameters->sequence;
  } else if (std::holds_alternative<Progress>(message.body)) {
    args.worker = message.sender.index;
  }
  lane_->span(span, began, now, args);
  if (commit && commit->offset + commit->count == commit->total)
    lane_->flow(FlowPoint::Step, began, args.worker, args.sequence, shard_);
}

}  // namespace rubato::proto
