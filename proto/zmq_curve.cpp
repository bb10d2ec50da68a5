#include "proto/zmq_curve.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/log_limit.hpp"
#include "proto/key_files.hpp"

namespace rubato::proto {
namespace {

constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";  // ZeroMQ's name for it
constexpr const char* kEndEndpoint = "inproc://end-of-guard";
constexpr Duration kLookEvery = Duration::from_seconds(1);
// Sooner for a key that is not known: it may have been allowed just before its node was started.
constexpr Duration kLookAgainAfter = Duration::from_ms(100);
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kAddressMax = 64;  // of what is logged

// RFC 27: version, id of the request, domain, address, routing id, mechanism, credentials.
enum Frame : std::size_t {
  kVersion,
  kRequest,
  kAddress = 3,
  kMechanism = 5,
  kCredentials,
  kFrames
};

// The key may belong to another name later, or the name have another key.
std::string user_id(const Identity& identity) {
  return fmt::format("{} {} {}", role_name(identity.role), identity.name, identity.public_key);
}

}  // namespace

CurvePair make_curve_pair() {
  std::array<char, kKeyCharacters + 1> shown{}, hidden{};
  const int done = zmq_curve_keypair(shown.data(), hidden.data());
  RUBATO_CHECK(done == 0, "ZeroMQ is built with CURVE");
  return {shown.data(), hidden.data()};
}

class KeyGuard::Thread {
 public:
  Thread(KeyGuard& guard, zmq::context_t& context, const Keys& keys, std::function<void()> changed)
      : guard_(guard),
        changed_(std::move(changed)),
        scheduler_{Role::Scheduler, std::string(kSchedulerName), keys.scheduler},
        authorized_(keys.authorized),
        zap_(context, zmq::socket_type::rep),
        end_(context, zmq::socket_type::pair),
        ended_(context, zmq::socket_type::pair) {
    zap_.set(zmq::sockopt::linger, 0);
    zap_.bind(kZapEndpoint);  // here: ZeroMQ lets everybody in while nobody answers
    ended_.bind(kEndEndpoint);
    end_.connect(kEndEndpoint);
    authorized_.refresh();
    publish();
    thread_ = std::jthread([this] { run(); });
  }

  ~Thread() {
    end_.send(zmq::message_t(), zmq::send_flags::dontwait);
    thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

 private:
  void run() {
    std::array<zmq::pollitem_t, 2> items{
        {{zap_.handle(), 0, ZMQ_POLLIN, 0}, {ended_.handle(), 0, ZMQ_POLLIN, 0}}};
    while (true) {
      try {
        zmq::poll(items, std::chrono::milliseconds(kLookEvery.ns / 1'000'000));
        if ((items[1].revents & ZMQ_POLLIN) != 0) return;
        if ((items[0].revents & ZMQ_POLLIN) != 0) answer();
      } catch (const zmq::error_t& error) {
        if (error.num() == ETERM) return;
      }
      look_after(kLookEvery);
    }
  }

  // Looks at the directory if the last look was so long ago.
  void look_after(Duration pause) {
    const Instant now = steady_now();
    if (now - looked_ < pause) return;
    looked_ = now;
    if (!authorized_.refresh()) return;
    publish();
    changed_();
  }

  void publish() {
    auto allowed = std::make_shared<KnownPeers::Allowed>();
    for (const auto& [key, identity] : authorized_.by_key())
      allowed->emplace(user_id(identity), std::make_shared<const Identity>(identity));
    allowed->emplace(user_id(scheduler_), std::make_shared<const Identity>(scheduler_));
    {
      const std::lock_guard lock(guard_.mutex_);
      guard_.allowed_ = std::move(allowed);
    }
    ++guard_.generation_;
  }

  // Whose key this is. Null: nobody's who may connect.
  const Identity* owner(const zmq::message_t& credentials) const {
    if (credentials.size() != kKeyBytes) return nullptr;
    std::array<char, kKeyCharacters + 1> text{};
    zmq_z85_encode(text.data(), credentials.data<std::uint8_t>(), kKeyBytes);
    const std::string key = text.data();
    if (key == scheduler_.public_key) return &scheduler_;
    const auto at = authorized_.by_key().find(key);
    return at == authorized_.by_key().end() ? nullptr : &at->second;
  }

  void answer() {
    std::vector<zmq::message_t> frames;
    do {
      if (!zap_.recv(frames.emplace_back())) return;
    } while (frames.back().more());
    const Identity* who = nullptr;
    if (frames.size() == kFrames && frames[kMechanism].to_string_view() == "CURVE") {
      who = owner(frames[kCredentials]);
      if (who == nullptr) {
        look_after(kLookAgainAfter);
        who = owner(frames[kCredentials]);
      }
    }
    if (who == nullptr && frames.size() == kFrames)
      refused(frames[kAddress].to_string().substr(0, kAddressMax));
    const auto say = [this](std::string_view text, bool more = true) {
      zap_.send(zmq::message_t(text), more ? zmq::send_flags::sndmore : zmq::send_flags::none);
    };
    say("1.0");
    zap_.send(frames.size() > kRequest ? std::move(frames[kRequest]) : zmq::message_t(),
              zmq::send_flags::sndmore);
    say(who ? "200" : "400");
    say("");
    say(who ? user_id(*who) : "");
    say("", false);
  }

  void refused(const std::string& address) {
    const auto left_out = limit_.admit(steady_now(), address);
    if (!left_out) return;
    log_warning(
        fmt::format("refused a node at {}: its key is not in {}; rubato keys allow FILE.pub "
                    "would let it in{}",
                    address, authorized_.directory(), more_text(*left_out)));
  }

  KeyGuard& guard_;
  std::function<void()> changed_;
  const Identity scheduler_;
  AuthorizedKeys authorized_;
  Instant looked_ = steady_now();
  LogLimit limit_;  // by address
  zmq::socket_t zap_;
  zmq::socket_t end_, ended_;  // what the destructor sends, and where the thread hears it
  std::jthread thread_;        // last: it uses the members above
};

KeyGuard::KeyGuard(zmq::context_t& context, const Keys& keys, std::function<void()> changed)
    : thread_(std::make_unique<Thread>(*this, context, keys, std::move(changed))) {}
KeyGuard::~KeyGuard() = default;

std::shared_ptr<const KnownPeers::Allowed> KeyGuard::allowed() const {
  const std::lock_guard lock(mutex_);
  return allowed_;
}

}  // namespace rubato::proto
