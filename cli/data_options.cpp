#include "cli/data_options.hpp"

#include <array>
#include <string>
#include <string_view>

namespace rubato::cli {

Result<void> in_options(Result<void> done, bool data) {
  struct Option {
    std::string_view key, option;
    bool data_only = false;
  };
  constexpr std::array kOptions = {Option{"dataset.header", "--header"},
                                   Option{"dataset.label_column", "--label"},
                                   Option{"dataset.separator", "--separator"},
                                   Option{"dataset.decimal", "--decimal"},
                                   Option{"dataset.missing", "--missing"},
                                   Option{"dataset.encoding", "--encoding"},
                                   Option{"dataset.kind", "--kind"},
                                   Option{"dataset.task", "--task", true},
                                   Option{"dataset.weight_column", "--weights", true},
                                   Option{"dataset.ignore", "--ignore", true},
                                   Option{"dataset.categorical", "--categorical", true},
                                   Option{"dataset.image_size", "--image-size", true}};
  if (done) return done;
  std::string& message = done.error().message;
  for (const auto& [key, option, data_only] : kOptions) {
    if (data_only && !data) continue;
    for (std::size_t at = 0; (at = message.find(key, at)) != message.npos; at += option.size()) {
      message.replace(at, key.size(), option);
      const std::size_t behind = at + option.size();
      if (message.substr(behind).starts_with(" = ")) message.erase(behind, 2);
      // A list of the file is a word here.
      if (!message.substr(behind).starts_with(" [\"")) continue;
      message.erase(behind + 1, 1);
      if (const auto end = message.find("\"]", behind); end != message.npos)
        message.erase(end + 1, 1);
    }
  }
  return done;
}

}  // namespace rubato::cli
