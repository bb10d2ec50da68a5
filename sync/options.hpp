// sync/options.hpp - what a user has set for the sync models ([sync.<model>] in the cluster file).
// A model declares the struct of its options in its own file; they are kept here by type.
// Copies are independent. Threads: one owner; reading from many is safe.
#pragma once

#include <any>
#include <map>
#include <typeindex>

namespace rubato::sync {

class Options {
 public:
  // The options of one model. Where nothing was set: their defaults.
  template <class T>
  const T& of() const {
    static const T defaults{};
    const auto at = values_.find(typeid(T));
    return at == values_.end() ? defaults : *std::any_cast<T>(&at->second);
  }
  template <class T>
  T& of() {
    auto& value = values_[typeid(T)];
    if (!value.has_value()) value = T{};
    return *std::any_cast<T>(&value);
  }

 private:
  std::map<std::type_index, std::any> values_;
};

}  // namespace rubato::sync
