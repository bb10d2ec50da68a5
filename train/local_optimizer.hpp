// train/local_optimizer.hpp - what one step subtracts from a worker's parameters: W <- W - d.
// Sources: momentum: Polyak 1964. AdamW: Loshchilov, Hutter, ICLR 2019, Alg. 2. Clipping: Pascanu,
// Mikolov, Bengio, ICML 2013, Alg. 1. All as in PyTorch: torch.optim.SGD and AdamW, and
// clip_grad_norm_ before them.
// Letters: g gradient of the mean loss, eta' the step's rate, lambda weight_decay, beta momentum,
// c clip_norm, n the step's number.
//
//   first      g <- min(1, c / |g|) g, |g| over all parameters
//   sgd        g <- g + lambda W; d = eta' g
//   momentum   g <- g + lambda W; v <- beta v + g; d = eta' v
//   adamw      m <- beta1 m + (1 - beta1) g; v <- beta2 v + (1 - beta2) g^2
//              d = eta' (m/(1 - beta1^n) / (sqrt(v/(1 - beta2^n)) + epsilon) + lambda W)
//
// The moments v and m stay here. No commit carries them and no reply changes them.
// Pure. Shapes: all spans are the flat parameters. Memory: the moments.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rubato::train {

enum class LocalOptimizerKind { Sgd, Momentum, AdamW };

struct LocalOptimizerOptions {
  LocalOptimizerKind kind = LocalOptimizerKind::Sgd;
  double momentum = 0.9;    // beta, in [0, 1)
  double beta1 = 0.9;       // in [0, 1)
  double beta2 = 0.999;     // in [0, 1)
  double epsilon = 1e-8;    // above 0
  double weight_decay = 0;  // lambda, at least 0
  double clip_norm = 0;     // c, above 0; 0: not clipped
};

class LocalOptimizer {
 public:
  LocalOptimizer() = default;
  LocalOptimizer(const LocalOptimizerOptions& options, std::size_t parameters);

  // d is the rate times the gradient. The caller may do that by itself.
  bool plain() const { return plain_; }
  // gradient <- d, and the moments take the gradient in.
  void turn(std::span<float> gradient, std::span<const float> weights, float rate);

 private:
  LocalOptimizerOptions options_;
  bool plain_ = true;
  std::uint64_t steps_ = 0;      // n
  std::vector<float> velocity_;  // Momentum: v. AdamW: m. Else empty
  std::vector<float> square_;    // AdamW: v. Else empty
};

}  // namespace rubato::train
