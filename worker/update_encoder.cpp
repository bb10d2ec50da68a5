#include "worker/update_encoder.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace rubato::worker {

UpdateEncoder::UpdateEncoder(const proto::Compression& compression,
                             std::shared_ptr<Residual> residual, std::uint64_t parameters,
                             std::uint64_t chunk, bool blank, proto::AveragedElements averaged)
    : compression_(compression),
      blank_(blank),
      residual_(std::move(residual)),
      buffers_(0),
      owed_(residual_ != nullptr),
      chunk_(std::min(chunk, parameters)),
      averaged_(std::move(averaged)) {
  buffers_ = proto::BufferPool(buffer_floats());
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
  buffers_ = proto::BufferPool(buffer_floats());
}

// With averaged elements a chunk may need as much as in f32.
std::uint64_t UpdateEncoder::buffer_floats() const {
  return averaged_.empty() ? proto::payload_floats(compression_, chunk_) : chunk_;
}

void UpdateEncoder::begin(std::shared_ptr<const Floats> update, bool finite) {
  end();
  update_ = std::move(update);
  finite_ = finite;
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
  finite_ = plain_ = true;
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
  packed_ = plain_ = false;
  update_.reset();
  sent_.clear();
}

proto::Compression UpdateEncoder::form_of(std::uint64_t count) const {
  return compressing_ && count > 0 ? proto::worthwhile(compression_, count) : proto::Compression{};
}

UpdateEncoder::Chunk UpdateEncoder::chunk(std::uint64_t begin, std::uint64_t count) {
  RUBATO_CHECK(active(), "an update is in flight");
  const std::uint64_t averaged = plain_ ? 0 : averaged_.count(begin, count);
  const proto::Compression form = form_of(count - averaged);
  const auto made = [&](proto::Payload payload) {
    return Chunk{std::move(payload), form.codec, averaged};
  };
  if (packed_) return made(packed_chunk(begin, count));
  if (blank_)
    return made(proto::Payload::of(update_).slice(0, proto::compressed_bytes(form, count)));
  if (!compressing_ && averaged == 0)
    return made(proto::Payload::of(update_).slice(begin * sizeof(float), count * sizeof(float)));
  const auto at =
      std::lower_bound(sent_.begin(), sent_.end(), begin,
                       [](const Sent& sent, std::uint64_t wanted) { return sent.begin < wanted; });
  if (at != sent_.end() && at->begin == begin) return made(at->payload);
  if (compressing_ && form.codec == proto::PayloadCodec::F32) cleared_ += count;
  return made(sent_.insert(at, {begin, with_averaged(form, begin, count, averaged)})->payload);
}

proto::Payload UpdateEncoder::with_averaged(const proto::Compression& form, std::uint64_t begin,
                                            std::uint64_t count, std::uint64_t averaged) {
  const auto buffer = buffers_.take();
  const auto bytes = std::as_writable_bytes(std::span(*buffer));
  const auto update = std::span<const float>(*update_);
  const std::size_t coded = proto::compressed_bytes(form, count - averaged);
  if (averaged == 0) {
    compressor_.compress(form, update.subspan(begin, count),
                         residual_->values().subspan(begin, count), bytes.first(coded));
    return proto::Payload::of(buffer).slice(0, coded);
  }
  others_.clear();
  owed_of_others_.clear();
  averaged_.for_each_other(begin, count, [&](std::uint64_t offset, std::uint64_t n) {
    const auto from = update.subspan(offset, n);
    others_.insert(others_.end(), from.begin(), from.end());
    if (!compressing_) return;
    const auto owed = residual_->values().subspan(offset, n);
    owed_of_others_.insert(owed_of_others_.end(), owed.begin(), owed.end());
  });
  if (!compressing_) {
    std::memcpy(bytes.data(), others_.data(), coded);
  } else if (!others_.empty()) {
    compressor_.compress(form, others_, owed_of_others_, bytes.first(coded));
    auto next = owed_of_others_.cbegin();
    averaged_.for_each_other(begin, count, [&](std::uint64_t offset, std::uint64_t n) {
      const auto length = static_cast<std::ptrdiff_t>(n);
      std::copy(next, next + length, residual_->values().subspan(offset, n).begin());
      next += length;
    });
  }
  std::size_t at = coded;
  averaged_.for_each(begin, count, [&](std::uint64_t offset, std::uint64_t n) {
    std::memcpy(bytes.data() + at, update.data() + offset, n * sizeof(float));
    at += n * sizeof(float);
  });
  return proto::Payload::of(buffer).slice(0, at);
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
