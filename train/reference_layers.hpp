// train/reference_layers.hpp - forward and backward of every layer as plain loops, only for
// train/reference_network.cpp.
// Letters: B batch, I inputs, O outputs, C channels, H height, W width, K kernel, T time steps,
// F features of a step, N hidden units. A backward function is given dy = d(loss)/dy, overwrites
// dx, and overwrites the gradients of its parameters; dx is null for the first layer.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "train/model/model_spec.hpp"

namespace rubato::train::reference {

// x [B,I], weights [O,I], bias [O] -> y [B,O]: y = x weights^T + bias
template <class Real>
void dense_forward(int B, int I, int O, const Real* x, const Real* weights, const Real* bias,
                   Real* y) {
  for (int b = 0; b < B; ++b) {
    for (int o = 0; o < O; ++o) {
      Real sum = bias[o];
      for (int i = 0; i < I; ++i) sum += x[b * I + i] * weights[o * I + i];
      y[b * O + o] = sum;
    }
  }
}

template <class Real>
void dense_backward(int B, int I, int O, const Real* x, const Real* weights, const Real* dy,
                    Real* dx, Real* dweights, Real* dbias) {
  std::fill_n(dweights, O * I, Real(0));
  std::fill_n(dbias, O, Real(0));
  if (dx) std::fill_n(dx, B * I, Real(0));
  for (int b = 0; b < B; ++b) {
    for (int o = 0; o < O; ++o) {
      const Real d = dy[b * O + o];
      dbias[o] += d;
      for (int i = 0; i < I; ++i) {
        dweights[o * I + i] += d * x[b * I + i];
        if (dx) dx[b * I + i] += d * weights[o * I + i];
      }
    }
  }
}

// Calls visit(y index, x index, weight index) for every product of a convolution.
template <class Visit>
void for_each_product(int B, const Shape& in, const Shape& out, const Conv2d& conv, Visit visit) {
  const auto [KH, KW] = conv.kernel;
  for (int b = 0; b < B; ++b)
    for (int o = 0; o < out.channels; ++o)
      for (int h = 0; h < out.height; ++h)
        for (int w = 0; w < out.width; ++w)
          for (int c = 0; c < in.channels; ++c)
            for (int kh = 0; kh < KH; ++kh)
              for (int kw = 0; kw < KW; ++kw) {
                const int row = h * conv.stride.height + kh - conv.padding.height;
                const int column = w * conv.stride.width + kw - conv.padding.width;
                if (row < 0 || row >= in.height || column < 0 || column >= in.width) continue;
                visit(((b * out.channels + o) * out.height + h) * out.width + w,
                      ((b * in.channels + c) * in.height + row) * in.width + column,
                      ((o * in.channels + c) * KH + kh) * KW + kw);
              }
}

// x [B,in], weights [O,C,KH,KW], bias [O] -> y [B,out]
template <class Real>
void conv_forward(int B, const Shape& in, const Shape& out, const Conv2d& conv, const Real* x,
                  const Real* weights, const Real* bias, Real* y) {
  const int plane = out.height * out.width;
  for (int i = 0; i < B * out.count(); ++i) y[i] = bias[i / plane % out.channels];
  for_each_product(B, in, out, conv, [&](int yi, int xi, int wi) { y[yi] += x[xi] * weights[wi]; });
}

template <class Real>
void conv_backward(int B, const Shape& in, const Shape& out, const Conv2d& conv, const Real* x,
                   const Real* weights, const Real* dy, Real* dx, Real* dweights, Real* dbias) {
  const int plane = out.height * out.width;
  std::fill_n(dbias, out.channels, Real(0));
  std::fill_n(dweights, out.channels * in.channels * conv.kernel.count(), Real(0));
  if (dx) std::fill_n(dx, B * in.count(), Real(0));
  for (int i = 0; i < B * out.count(); ++i) dbias[i / plane % out.channels] += dy[i];
  for_each_product(B, in, out, conv, [&](int yi, int xi, int wi) {
    dweights[wi] += dy[yi] * x[xi];
    if (dx) dx[xi] += dy[yi] * weights[wi];
  });
}

// x [B,in] -> y [B,out], winners [B,out]: the index into x of the first largest of each window.
template <class Real>
void max_pool_forward(int B, const Shape& in, const Shape& out, const MaxPool2d& pool,
                      const Real* x, Real* y, std::int64_t* winners) {
  int yi = 0;
  for (int plane = 0; plane < B * in.channels; ++plane)
    for (int h = 0; h < out.height; ++h)
      for (int w = 0; w < out.width; ++w, ++yi) {
        const int top = h * pool.stride.height - pool.padding_begin.height;
        const int left = w * pool.stride.width - pool.padding_begin.width;
        const int bottom = std::min(top + pool.kernel.height, in.height);
        const int right = std::min(left + pool.kernel.width, in.width);
        std::int64_t best = -1;
        for (int row = std::max(top, 0); row < bottom; ++row)
          for (int column = std::max(left, 0); column < right; ++column) {
            const int xi = (plane * in.height + row) * in.width + column;
            if (best < 0 || x[xi] > x[best]) best = xi;
          }
        winners[yi] = best;
        y[yi] = x[best];
      }
}

template <class Real>
void max_pool_backward(int B, const Shape& in, const Shape& out, const std::int64_t* winners,
                       const Real* dy, Real* dx) {
  std::fill_n(dx, B * in.count(), Real(0));
  for (int i = 0; i < B * out.count(); ++i) dx[winners[i]] += dy[i];
}

// y_c = x_c s_c^-beta with s_c = bias + alpha sum_{|j - c| <= radius} x_j^2, at every position.
template <class Real>
Real response_scale(const Shape& shape, const LocalResponseNorm& norm, const Real* x, int c) {
  const int plane = shape.height * shape.width;  // x points at one position of channel 0
  Real sum = 0;
  for (int j = std::max(0, c - norm.radius); j <= std::min(shape.channels - 1, c + norm.radius);
       ++j) {
    sum += x[j * plane] * x[j * plane];
  }
  return Real(norm.bias) + Real(norm.alpha) * sum;
}

template <class Real>
void response_norm_forward(int B, const Shape& shape, const LocalResponseNorm& norm, const Real* x,
                           Real* y) {
  const int plane = shape.height * shape.width;
  for (int b = 0; b < B; ++b)
    for (int p = 0; p < plane; ++p)
      for (int c = 0; c < shape.channels; ++c) {
        const int start = b * shape.count() + p;
        const Real scale = response_scale(shape, norm, x + start, c);
        y[start + c * plane] = x[start + c * plane] * std::pow(scale, -Real(norm.beta));
      }
}

// dx_j = dy_j s_j^-beta - 2 alpha beta x_j sum_{|c - j| <= radius} dy_c x_c s_c^(-beta - 1)
template <class Real>
void response_norm_backward(int B, const Shape& shape, const LocalResponseNorm& norm, const Real* x,
                            const Real* dy, Real* dx) {
  const int plane = shape.height * shape.width;
  std::fill_n(dx, B * shape.count(), Real(0));
  for (int b = 0; b < B; ++b)
    for (int p = 0; p < plane; ++p)
      for (int c = 0; c < shape.channels; ++c) {
        const int start = b * shape.count() + p;
        const int here = start + c * plane;
        const Real scale = response_scale(shape, norm, x + start, c);
        const Real power = std::pow(scale, -Real(norm.beta));
        const Real common =
            2 * Real(norm.alpha) * Real(norm.beta) * dy[here] * x[here] * power / scale;
        dx[here] += dy[here] * power;
        for (int j = std::max(0, c - norm.radius);
             j <= std::min(shape.channels - 1, c + norm.radius); ++j) {
          dx[start + j * plane] -= common * x[start + j * plane];
        }
      }
}

// NaN passes through, so that a broken update is seen.
template <class Real>
void relu_forward(int count, const Real* x, Real* y) {
  for (int i = 0; i < count; ++i) y[i] = x[i] < 0 ? Real(0) : x[i];
}

template <class Real>
void relu_backward(int count, const Real* y, const Real* dy, Real* dx) {
  for (int i = 0; i < count; ++i) dx[i] = y[i] > 0 ? dy[i] : Real(0);
}

}  // namespace rubato::train::reference
