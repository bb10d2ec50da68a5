// train/reference_lstm.hpp - the LSTM layer as plain loops, only for train/reference_network.cpp.
// Source: Hochreiter and Schmidhuber 1997 with the forget gate of Gers 2000, no peepholes:
//   i f o = sigmoid, g = tanh of (weights [x_t; h_{t-1}] + bias)
//   c_t = f c_{t-1} + i g,   h_t = o tanh(c_t),   h_0 = c_0 = 0
// Letters: B batch, T time steps, F features of a step, N hidden units, Z = F + N.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "train/model/model_spec.hpp"

namespace rubato::train::reference {

// Feature f of step t of one sample: channel f / width, row t, column f % width.
inline int sequence_index(const Shape& in, int t, int f) {
  return (f / in.width * in.height + t) * in.width + f % in.width;
}

template <class Real>
Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}

// x [B,in], weights [4N,Z], bias [4N] -> gates [T,B,4N], cells and hiddens [T+1,B,N], y [B,N]
template <class Real>
void lstm_forward(int B, const Shape& in, int N, const Real* x, const Real* weights,
                  const Real* bias, Real* gates, Real* cells, Real* hiddens, Real* y) {
  const int T = in.height, F = in.channels * in.width, Z = F + N;
  std::fill_n(cells, B * N, Real(0));
  std::fill_n(hiddens, B * N, Real(0));
  for (int t = 0; t < T; ++t)
    for (int b = 0; b < B; ++b) {
      Real* gate = gates + (t * B + b) * 4 * N;
      const Real* c_before = cells + (t * B + b) * N;
      const Real* h_before = hiddens + (t * B + b) * N;
      Real* c = cells + ((t + 1) * B + b) * N;
      Real* h = hiddens + ((t + 1) * B + b) * N;
      for (int r = 0; r < 4 * N; ++r) {
        Real sum = bias[r];
        for (int f = 0; f < F; ++f) {
          sum += weights[r * Z + f] * x[b * in.count() + sequence_index(in, t, f)];
        }
        for (int n = 0; n < N; ++n) sum += weights[r * Z + F + n] * h_before[n];
        gate[r] = r / N == 2 ? std::tanh(sum) : sigmoid(sum);
      }
      for (int n = 0; n < N; ++n) {
        c[n] = gate[N + n] * c_before[n] + gate[n] * gate[2 * N + n];
        h[n] = gate[3 * N + n] * std::tanh(c[n]);
      }
    }
  std::copy_n(hiddens + T * B * N, B * N, y);
}

template <class Real>
void lstm_backward(int B, const Shape& in, int N, const Real* x, const Real* weights,
                   const Real* gates, const Real* cells, const Real* hiddens, const Real* dy,
                   Real* dx, Real* dweights, Real* dbias) {
  const int T = in.height, F = in.channels * in.width, Z = F + N;
  std::fill_n(dweights, 4 * N * Z, Real(0));
  std::fill_n(dbias, 4 * N, Real(0));
  if (dx) std::fill_n(dx, B * in.count(), Real(0));
  std::vector<Real> dh(N), dc(N), dgate(4 * N);
  for (int b = 0; b < B; ++b) {
    std::copy_n(dy + b * N, N, dh.begin());
    std::fill(dc.begin(), dc.end(), Real(0));
    for (int t = T - 1; t >= 0; --t) {
      const Real* gate = gates + (t * B + b) * 4 * N;
      const Real* c_before = cells + (t * B + b) * N;
      const Real* h_before = hiddens + (t * B + b) * N;
      const Real* c = cells + ((t + 1) * B + b) * N;
      for (int n = 0; n < N; ++n) {
        const Real i = gate[n], f = gate[N + n], g = gate[2 * N + n], o = gate[3 * N + n];
        const Real tanh_c = std::tanh(c[n]);
        dc[n] += dh[n] * o * (1 - tanh_c * tanh_c);
        dgate[n] = dc[n] * g * i * (1 - i);
        dgate[N + n] = dc[n] * c_before[n] * f * (1 - f);
        dgate[2 * N + n] = dc[n] * i * (1 - g * g);
        dgate[3 * N + n] = dh[n] * tanh_c * o * (1 - o);
        dc[n] *= f;
      }
      std::fill(dh.begin(), dh.end(), Real(0));
      for (int r = 0; r < 4 * N; ++r) {
        dbias[r] += dgate[r];
        for (int f = 0; f < F; ++f) {
          const int xi = b * in.count() + sequence_index(in, t, f);
          dweights[r * Z + f] += dgate[r] * x[xi];
          if (dx) dx[xi] += dgate[r] * weights[r * Z + f];
        }
        for (int n = 0; n < N; ++n) {
          dweights[r * Z + F + n] += dgate[r] * h_before[n];
          dh[n] += dgate[r] * weights[r * Z + F + n];
        }
      }
    }
  }
}

}  // namespace rubato::train::reference
