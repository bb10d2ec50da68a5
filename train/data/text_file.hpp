// train/data/text_file.hpp - the text of a file: unpacked, in UTF-8, with line ends "\n". A file
// that is no text is refused with the name of what it is. Errors: Io, BadInput, one line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rubato::train {

struct TextFile {
  std::string text;
  std::string encoding;         // "UTF-8", "UTF-16LE", "WINDOWS-1252", or as stated
  std::size_t inner_marks = 0;  // byte-order marks at the begin of later lines, which are left out
};

// `encoding`: a name that iconv knows; empty: by the file's mark, by its zero bytes (UTF-16), else
// UTF-8 where it is that, else Windows-1252, which ISO 8859-1 is a part of. Refused: a text that is
// none of them by its looks.
[[nodiscard]] Result<TextFile> read_text_file(const std::string& path,
                                              std::string_view encoding = {});

// The first 64 KiB of such a text, which may end within a line: enough to tell what it is.
[[nodiscard]] Result<TextFile> read_text_start(const std::string& path);

}  // namespace rubato::train
