#include "emulation/fair_network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/check.hpp"

namespace rubato::emulation {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Duration kLongest = Duration::from_seconds(kInfinity);  // of a transfer

}  // namespace

FairNetwork::Node FairNetwork::add_node(double up_bytes_per_second, double down_bytes_per_second) {
  for (const double capacity : {up_bytes_per_second, down_bytes_per_second}) {
    links_.emplace_back().capacity = capacity > 0 ? capacity : kInfinity;
    limited_.push_back(capacity > 0);
  }
  return static_cast<Node>(links_.size() / 2 - 1);
}

void FairNetwork::set_capacity(Instant now, Node node, Way way, double bytes_per_second) {
  check_time(now);
  const LinkId link = 2 * node + (way == Way::Down ? 1 : 0);
  RUBATO_CHECK(limited(link) || flows_.empty(), "a link gets a limit before it is used");
  limited_[link] = true;
  links_[link].capacity = bytes_per_second;
  share(std::span(&link, 1));
}

void FairNetwork::check_time(Instant now) {
  RUBATO_CHECK(now >= now_, "virtual time never goes back");
  now_ = now;
}

void FairNetwork::send(Instant now, Node from, Node to, std::uint64_t bytes, std::uint64_t tag) {
  check_time(now);
  if (!limited(2 * from) && !limited(2 * to + 1) && !held(from, to)) {
    at_once_.push_back({from, to, tag});
    return;
  }
  const std::uint64_t pair = (std::uint64_t{from} << 32) | to;
  const auto [entry, fresh] = flow_ids_.emplace(pair, static_cast<FlowId>(flows_.size()));
  if (fresh) {
    flows_.emplace_back().from = from;
    flows_.back().to = to;
    flows_.back().held = held(from, to);
  }
  Flow& flow = flows_[entry->second];
  flow.queue.push_back({static_cast<double>(bytes), tag});
  if (flow.queue.size() > 1) return;
  flow.remaining = flow.queue.front().bytes;
  if (flow.held) return;
  begin(entry->second);
  const LinkId links[2] = {2 * from, 2 * to + 1};
  share(links);
}

bool FairNetwork::held(Node from, Node to) const {
  if (cuts_.empty()) return false;
  return cuts_.contains({from, from}) || cuts_.contains({to, to}) ||
         cuts_.contains(std::minmax(from, to));
}

void FairNetwork::cut(Instant now, Node a, Node b, bool is_cut) {
  check_time(now);
  if (is_cut)
    cuts_.insert(std::minmax(a, b));
  else
    cuts_.erase(std::minmax(a, b));
  hold_flows();
}

void FairNetwork::hold_flows() {
  std::vector<LinkId> changed;
  for (FlowId id = 0; id < flows_.size(); ++id) {
    Flow& flow = flows_[id];
    if (flow.held == held(flow.from, flow.to)) continue;
    flow.held = !flow.held;
    if (flow.queue.empty()) continue;
    if (flow.held) {
      set_rate(id, 0);  // counts what has passed
      end(id);
    } else if (limited(flow)) {
      begin(id);
    } else {
      for (const auto& transfer : flow.queue)
        at_once_.push_back({flow.from, flow.to, transfer.tag});
      flow.queue.clear();
    }
    changed.push_back(2 * flow.from);
    changed.push_back(2 * flow.to + 1);
  }
  share(changed);
}

std::optional<Instant> FairNetwork::next_completion() const {
  if (!at_once_.empty()) return now_;
  if (by_end_.empty()) return std::nullopt;
  return flows_[by_end_.front()].ends;
}

std::span<const FairNetwork::Completed> FairNetwork::advance(Instant now) {
  check_time(now);
  std::swap(completed_, at_once_);
  at_once_.clear();
  changed_.clear();
  while (!by_end_.empty() && flows_[by_end_.front()].ends <= now) {
    const FlowId id = by_end_.front();
    Flow& flow = flows_[id];
    completed_.push_back({flow.from, flow.to, flow.queue.front().tag, flow.narrow_down});
    flow.queue.pop_front();
    if (flow.queue.empty()) {
      end(id);
      changed_.push_back(2 * flow.from);
      changed_.push_back(2 * flow.to + 1);
    } else {  // nobody else's rate depends on which message it is
      flow.remaining = flow.queue.front().bytes;
      flow.updated = now;
      set_rate(id, flow.rate);
    }
  }
  share(changed_);
  std::ranges::stable_sort(completed_, {},
                           [](const Completed& done) { return std::tuple(done.from, done.to); });
  return completed_;
}

void FairNetwork::begin(FlowId id) {
  Flow& flow = flows_[id];
  flow.rate = 0;
  flow.updated = now_;
  flow.ends = {std::numeric_limits<std::int64_t>::max()};
  const LinkId ends[2] = {2 * flow.from, 2 * flow.to + 1};
  for (int i = 0; i < 2; ++i) {
    if (!limited(ends[i])) continue;
    flow.places[i] = static_cast<std::uint32_t>(links_[ends[i]].flows.size());
    links_[ends[i]].flows.push_back(id);
  }
  by_end_.push_back(id);
  flow.place = static_cast<std::uint32_t>(by_end_.size() - 1);
}

void FairNetwork::end(FlowId id) {
  Flow& flow = flows_[id];
  const LinkId ends[2] = {2 * flow.from, 2 * flow.to + 1};
  for (int i = 0; i < 2; ++i) {
    if (!limited(ends[i])) continue;
    auto& list = links_[ends[i]].flows;
    list[flow.places[i]] = list.back();  // the last one takes its place
    flows_[list.back()].places[i] = flow.places[i];
    list.pop_back();
  }
  remove(flow.place);
}

void FairNetwork::visit(LinkId link) {
  if (!limited(link) || links_[link].seen == search_) return;
  Link& found = links_[link];
  found.seen = search_;
  found.free = found.capacity;
  found.open = static_cast<int>(found.flows.size());
  found_links_.push_back(link);
}

// Progressive filling: raise all rates together until some link is full, fix the transfers on it,
// and go on with the rest.
void FairNetwork::share(std::span<const LinkId> changed) {
  ++search_;
  found_.clear();
  found_links_.clear();
  for (const LinkId link : changed) visit(link);
  // NOLINTNEXTLINE(modernize-loop-convert): the list grows meanwhile
  for (std::size_t i = 0; i < found_links_.size(); ++i) {
    for (const FlowId id : links_[found_links_[i]].flows) {
      Flow& flow = flows_[id];
      if (flow.seen == search_) continue;
      flow.seen = search_;
      found_.push_back(id);
      visit(2 * flow.from);
      visit(2 * flow.to + 1);
    }
  }
  while (!found_.empty()) {
    double fair = kInfinity;
    for (const LinkId link : found_links_)
      if (links_[link].open > 0) fair = std::min(fair, links_[link].free / links_[link].open);
    for (const LinkId id : found_links_) {
      Link& link = links_[id];
      link.full = link.open > 0 && link.free / link.open <= fair;
    }
    std::erase_if(found_, [&](FlowId id) {
      Flow& flow = flows_[id];
      const LinkId ends[2] = {2 * flow.from, 2 * flow.to + 1};
      const auto full = [&](LinkId link) { return limited(link) && links_[link].full; };
      if (!full(ends[0]) && !full(ends[1])) return false;
      flow.narrow_down = !full(ends[0]);
      for (const LinkId link : ends) {
        if (!limited(link)) continue;
        links_[link].free = std::max(0.0, links_[link].free - fair);
        --links_[link].open;
      }
      set_rate(id, fair);
      return true;
    });
  }
}

void FairNetwork::set_rate(FlowId id, double rate) {
  Flow& flow = flows_[id];
  if (flow.rate == rate && flow.updated != now_) return;  // it ends when it would have
  const double sent = flow.rate * (now_ - flow.updated).seconds();
  flow.remaining -= std::min(sent, flow.remaining);
  flow.updated = now_;
  flow.rate = rate;
  // Rounded up to the next nanosecond, so that by then the last byte is through.
  const double seconds = flow.remaining > 0 ? flow.remaining / rate : 0;  // for ever at rate 0
  const double ns = std::min(static_cast<double>(kLongest.ns), std::ceil(seconds * 1e9));
  flow.ends = now_ + Duration{static_cast<std::int64_t>(ns)};
  settle(flow.place);
}

bool FairNetwork::earlier(FlowId a, FlowId b) const {
  return flows_[a].ends < flows_[b].ends;
}

void FairNetwork::put(std::size_t place, FlowId id) {
  by_end_[place] = id;
  flows_[id].place = static_cast<std::uint32_t>(place);
}

// Moves the flow at `place`, whose end has changed, to where it belongs.
void FairNetwork::settle(std::size_t place) {
  const FlowId id = by_end_[place];
  for (std::size_t parent = (place - 1) / 2; place > 0 && earlier(id, by_end_[parent]);
       parent = (place - 1) / 2) {
    put(place, by_end_[parent]);
    place = parent;
  }
  for (std::size_t child = 2 * place + 1; child < by_end_.size(); child = 2 * place + 1) {
    if (child + 1 < by_end_.size() && earlier(by_end_[child + 1], by_end_[child])) ++child;
    if (!earlier(by_end_[child], id)) break;
    put(place, by_end_[child]);
    place = child;
  }
  put(place, id);
}

void FairNetwork::remove(std::size_t place) {
  const FlowId last = by_end_.back();
  by_end_.pop_back();
  if (place == by_end_.size()) return;
  put(place, last);
  settle(place);
}

}  // namespace rubato::emulation
