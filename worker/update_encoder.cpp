#include "worker/update_encoder.hpp"

#include <algorithm>
#include <utility>

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
  if (on_device_) return forget() ? Residual::Left::AnotherRun : Residual::Left::Nothing;
  if (!residual_) return Residual::Left::Nothing;
  const auto left = residual_->bind(run);
  owed_ = left == Residual::Left::ThisRun;
  return left;
}

bool UpdateEncoder::rebase(std::uint32_t restores) {
  const bool later = restores > std::exchange(restores_, restores);
  if (on_device_) return later && forget();
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

void UpdateEncoder::begin_plain(std::shared_ptr<const Floats> values) {
  end();
  drop_residual();
  update_ = std::move(values);
  finite_ = true;
  compressing_ = false;
}

train::Packing UpdateEncoder::packing(const proto::ShardMap& shards, std::uint64_t chunk) {
  RUBATO_CHECK(!active() && !residual_ && !blank_, "a device that packs has the residual");
  on_device_ = true;
  runs_.clear();
  if (compression_.codec == proto::PayloadCodec::F32 && !owed_) return {};
  const auto add = [&](std::uint64_t begin, std::uint64_t count, std::uint64_t chunks) {
    if (count == 0 || chunks == 0) return;
    const proto::Compression form = proto::worthwhile(compression_, count);
    runs_.push_back({.codec = form.codec,
                     .begin = begin,
                     .count = count,
                     .chunks = chunks,
                     .keep = proto::kept(form, count),
                     .bytes = proto::compressed_bytes(form, count)});
  };
  for (const auto& shard : shards.shards) {
    const std::uint64_t whole = shard.range.count() / chunk;
    add(shard.range.begin, chunk, whole);
    add(shard.range.begin + whole * chunk, shard.range.count() % chunk, 1);
  }
  return {.runs = runs_, .forget = std::exchange(forget_, false)};
}

void UpdateEncoder::begin_packed(std::shared_ptr<const Floats> payloads) {
  RUBATO_CHECK(!runs_.empty(), "an update is packed as it was asked for");
  end();
  update_ = std::move(payloads);
  finite_ = compressing_ = packed_ = true;
  owed_ = std::ranges::any_of(
      runs_, [](const train::PackedRun& run) { return run.codec != proto::PayloadCodec::F32; });
}

bool UpdateEncoder::forget() {
  forget_ = forget_ || owed_;
  return std::exchange(owed_, false);
}

void UpdateEncoder::drop_residual() {
  if (on_device_) forget();
  if (residual_) std::ranges::fill(residual_->values(), 0.0f);
  owed_ = false;
}

void UpdateEncoder::end() {
  if (update_ && cleared_ == update_->size()) owed_ = false;
  cleared_ = 0;
  packed_ = false;
  update_.reset();
  sent_.clear();
}

proto::Compression UpdateEncoder::form_of(std::uint64_t count) const {
  return compressing_ ? proto::worthwhile(compression_, count) : proto::Compression{};
}

proto::Payload UpdateEncoder::chunk(std::uint64_t begin, std::uint64_t count) {
  RUBATO_CHECK(active(), "an update is in flight");
  if (packed_) return packed_chunk(begin, count);
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

proto::Payload UpdateEncoder::packed_chunk(std::uint64_t begin, std::uint64_t count) const {
  std::size_t at = 0;
  for (const train::PackedRun& run : runs_) {
    if (begin >= run.end()) {
      at += run.floats();
      continue;
    }
    RUBATO_CHECK(count == run.count && (begin - run.begin) % count == 0, "a chunk that was packed");
    at += (begin - run.begin) / count * run.stride();
    return proto::Payload::of(update_).slice(at * sizeof(float), run.bytes);
  }
  RUBATO_CHECK(false, "a chunk of the model");
  return {};
}

}  // namespace rubato::worker
