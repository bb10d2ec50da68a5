#include "tests/integration/two_boxes.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/integration/process.hpp"

namespace rubato::integration {
namespace {

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

TwoBoxes::TwoBoxes() {
  if (!run("command -v ip")) {
    problem_ = "there is no command ip: deploy/install.sh test installs iproute2, which has it";
    return;
  }
  const std::string mark = std::to_string(::getpid());
  names_[0] = "curve-head-" + mark;
  names_[1] = "curve-far-" + mark;
  const std::string cable = "cv" + mark;
  ends_[0] = cable + "a";
  ends_[1] = cable + "b";
  for (const std::string& name : names_)
    if (!run("ip netns add " + name)) {
      problem_ = "network namespaces are not permitted here";
      return;
    }
  const std::vector<std::string> steps{
      "ip link add " + head_end() + " netns " + head() + " type veth peer name " + far_end() +
          " netns " + far(),
      "ip -n " + head() + " addr add 10.201.17.1/24 dev " + head_end(),
      "ip -n " + far() + " addr add 10.201.17.2/24 dev " + far_end(),
      "ip -n " + head() + " link set " + head_end() + " up",
      "ip -n " + far() + " link set " + far_end() + " up",
      "ip -n " + head() + " link set lo up",
      "ip -n " + far() + " link set lo up"};
  for (const std::string& step : steps)
    if (!run(step)) {
      problem_ = "failed: " + step;
      return;
    }
  std::jthread([this] {  // of its own: it stays in the namespace
    if (enter_box(head())) socket_ = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
  })
      .join();
  if (socket_ < 0) {
    problem_ = "packets cannot be read here";
    return;
  }
  const int room = 64 << 20;
  (void)::setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
  ear_ = std::jthread([this](const std::stop_token& stop) { listen(stop); });
}

TwoBoxes::~TwoBoxes() {
  ear_.request_stop();
  if (ear_.joinable()) ear_.join();
  if (socket_ >= 0) ::close(socket_);
  for (const std::string& name : names_) run("ip netns del " + name);
}

void TwoBoxes::listen(const std::stop_token& stop) {
  std::array<char, 1 << 16> packet{};
  while (!stop.stop_requested()) {
    pollfd wait{socket_, POLLIN, 0};
    if (::poll(&wait, 1, 50) <= 0) continue;
    const ssize_t size = ::recv(socket_, packet.data(), packet.size(), MSG_DONTWAIT);
    if (size <= 0) continue;
    const std::lock_guard lock(mutex_);
    passed_.append(packet.data(), static_cast<std::size_t>(size));
  }
}

std::string TwoBoxes::passed() {
  const std::lock_guard lock(mutex_);
  return std::exchange(passed_, {});
}

}  // namespace rubato::integration
