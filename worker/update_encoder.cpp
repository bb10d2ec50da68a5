#include "worker/update_encoder.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace rubato::worker {

UpdateEncoder::UpdateEncoder(const proto::Compression& compression,
                             std::shared_ptr<Residual> residual, std::uint64_t parameters,
                             std::uint64_t chunk, bool blank)
    : compression_(compression),
      blank_(blank),
      residual_(std::move(residual)),
      buffers_(proto::payload_floats(compression, std::min(chunk, parameters))),
      owed_(residual_ != nullptr),
      chunk_(std::min(chunk, parameters)) {
  RUBATO_CHECK(!residual_ || residual_->values().size() == parameters, "a residual of the model");
}

Residual::Left UpdateEncoder::join(Incarnation run) {
  RUBATO_CHECK(!active(), "no update is in flight");
  restores_ = 0;
  if (!residual_) return Residual::Left::Nothing;
  const auto left = residual_->bind(run);
  owed_ = left == Residual::Left::ThisRun;
  return left;
}

bool UpdateEncoder::rebase(std::uint32_t restores) {
  restores_ = restores;
  if (!residual_ || !residual_->rebase(restores)) return false;
  owed_ = false;
  return true;
}

void UpdateEncoder::use(const proto::Compression& compression) {
  if (compression.codec == compression_.codec && compression.keep == compression_.keep) return;
  compression_ = compression;
  buffers_ = proto::BufferPool(proto::payload_floats(compression, chunk_));
}

void UpdateEncoder::begin(std::shared_ptr<const Floats> update, bool finite, std::uint64_t seed) {
  end();
  update_ = std::move(update);
  finite_ = finite;
  seed_ = seed;
  const bool lossless = compression_.codec == proto::PayloadCodec::F32;
  compressing_ = finite && (blank_ || !lossless || owed_);
  if (!compressing_ || blank_) return;
  if (!residual_) {
    residual_ = std::make_shared<Residual>(update_->size());
    residual_->rebase(restores_);
  }
  owed_ = true;
}

void UpdateEncoder::drop_residual() {
  if (residual_) std::ranges::fill(residual_->values(), 0.0f);
  owed_ = false;
}

void UpdateEncoder::end() {
  if (update_ && cleared_ == update_->size()) owed_ = false;
  cleared_ = 0;
  update_.reset();
  sent_.clear();
}

proto::Compression UpdateEncoder::form_of(std::uint64_t count) const {
  return compressing_ ? proto::worthwhile(compression_, count) : proto::Compression{};
}

proto::Payload UpdateEncoder::chunk(std::uint64_t begin, std::uint64_t count) {
  RUBATO_CHECK(active(), "an update is in flight");
  const proto::Compression form = form_of(count);
  const std::size_t bytes = proto::compressed_bytes(form, count);
  if (blank_) return proto::Payload::of(update_).slice(0, bytes);
  if (!compressing_)
    return proto::Payload::of(update_).slice(begin * sizeof(float), count * sizeof(float));
  const auto at =
      std::lower_bound(sent_.begin(), sent_.end(), begin,
                       [](const Sent& sent, std::uint64_t wanted) { return sent.begin < wanted; });
  if (at != sent_.end() && at->begin == begin) return at->payload;
  const auto buffer = buffers_.take();
  compressor_.compress(form, std::span(*update_).subspan(begin, count),
                       residual_->values().subspan(begin, count), Rng(seed_, begin, 0).next(),
                       std::as_writable_bytes(std::span(*buffer)).first(bytes));
  if (form.codec == proto::PayloadCodec::F32) cleared_ += count;
  return sent_.insert(at, {begin, proto::Payload::of(buffer).slice(0, bytes)})->payload;
}

}  // namespace rubato::worker
