#include "train/data/text_file.hpp"

#include <fmt/format.h>
#include <iconv.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/file.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"

namespace rubato::train {
namespace {

constexpr std::size_t kTextBytesMax = std::size_t{1} << 34;  // of one compressed file
constexpr std::size_t kStartBytes = std::size_t{1} << 16;

// What gzip packed, in one piece or several. zlib's gzread() would leave out without a word what is
// behind the first piece and is none. Zeros there are what tapes leave.
Result<std::string> unpacked(const std::string& path, std::string_view packed) {
  const auto damaged = [&](std::string_view what) {
    return fail(ErrorCode::BadInput, fmt::format("{}: {}; make it again with gzip", path, what));
  };
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + 16) != Z_OK) return damaged("cannot be unpacked");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, &inflateEnd);
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 18);
  for (;;) {
    const auto given = static_cast<uInt>(std::min(packed.size(), std::size_t{1} << 30));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = given;
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    packed.remove_prefix(given - stream.avail_in);
    text.append(buffer.data(), buffer.size() - stream.avail_out);
    if (text.size() > kTextBytesMax) return text;
    if (code == Z_STREAM_END) {
      if (packed.find_first_not_of('\0') == packed.npos) return text;
      if (!packed.starts_with("\x1f\x8b") || inflateReset(&stream) != Z_OK)
        return damaged(fmt::format("{} behind its packed data are not packed",
                                   counted(packed.size(), "byte")));
    } else if (code != Z_OK) {
      return damaged("is damaged or ends early");
    }
  }
}

// The first bytes of a file, unpacked where gzip packed it. Reads on until there are `enough`.
Result<std::string> inflate(const std::string& path, std::size_t enough) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (!file) return fail(ErrorCode::Io, fmt::format("{}: {}", path, std::strerror(errno)));
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 18);
  for (;;) {
    const int got = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    int code = 0;
    if (got < 0 || (got == 0 && gzerror(file.get(), &code) && code == Z_BUF_ERROR))
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: is damaged or ends early; make it again with gzip", path));
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0 || text.size() >= enough) return text;
  }
}

struct Signature {
  std::string_view begins, is;
};

using namespace std::string_view_literals;

constexpr std::array kSignatures = {
    Signature{"PK\x03\x04"sv,
              "is a ZIP archive, as spreadsheets of Excel and LibreOffice are; save the table as "
              "CSV, or unpack the archive"},
    Signature{"PAR1"sv, "is a Parquet file; save it as CSV"},
    Signature{"ARROW1"sv, "is an Arrow or Feather file; save it as CSV"},
    Signature{"FEA1"sv, "is a Feather file; save it as CSV"},
    Signature{"ORC"sv, "is an ORC file; save it as CSV"},
    Signature{"Obj\x01"sv, "is an Avro file; save it as CSV"},
    Signature{"\x89HDF\r\n"sv, "is an HDF5 file; save its table as CSV or NumPy"},
    Signature{"SQLite format 3"sv, "is an SQLite database; save the table as CSV"},
    Signature{"\xD0\xCF\x11\xE0"sv, "is a document of an old Office, such as .xls; save it as CSV"},
    Signature{"\x93NUMPY"sv, "is a NumPy array; give it a name that ends in .npy, or set the kind"},
    Signature{"MATLAB 5.0"sv, "is a MATLAB file; save its table as CSV or NumPy"},
    Signature{"\x80\x03"sv, "is a Python pickle; save its table as CSV or NumPy"},
    Signature{"\x80\x04"sv, "is a Python pickle; save its table as CSV or NumPy"},
    Signature{"\x80\x05"sv, "is a Python pickle; save its table as CSV or NumPy"},
    Signature{"%PDF"sv, "is a PDF document; save its table as CSV"},
    Signature{"BZh"sv, "is compressed by bzip2; unpack it with bunzip2"},
    Signature{"\xFD\x37zXZ"sv, "is compressed by xz; unpack it with unxz"},
    Signature{"\x28\xB5\x2F\xFD"sv, "is compressed by Zstandard; unpack it with unzstd"},
    Signature{"7z\xBC\xAF"sv, "is a 7-Zip archive; unpack it"},
    Signature{"Rar!"sv, "is a RAR archive; unpack it"},
    Signature{"\x7F\x45LF"sv, "is a program"},
    Signature{"\x89PNG"sv, "is an image; give the directory that holds the images"},
    Signature{"\xFF\xD8\xFF"sv, "is an image; give the directory that holds the images"},
    Signature{"version https://git-lfs"sv, "is a pointer of Git LFS; fetch it with git lfs pull"},
};

// Names the kind of a file by its beginning, and the remedy. Empty: it may be text.
std::string_view no_text(std::string_view beginning) {
  for (const auto& [begins, is] : kSignatures)
    if (beginning.starts_with(begins)) return is;
  return {};
}

// The same of texts of another kind, which a reader of tables would take for one.
std::string_view no_table(std::string_view text) {
  const auto skip_blanks = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  };
  skip_blanks();
  while (text.starts_with('%')) {  // a comment of ARFF
    text.remove_prefix(std::min(text.find_first_of("\r\n"), text.size()));
    skip_blanks();
  }
  const std::string start = lower_case(text.substr(0, 16));
  if (start.starts_with("<!doctype") || start.starts_with("<html"))
    return "is a web page; if it was downloaded, the address is that of a page and not of the file";
  if (start.starts_with("<?xml")) return "is an XML document; save its table as CSV";
  if (start.starts_with("@relation") || start.starts_with("@attribute"))
    return "is an ARFF file; save it as CSV";
  if (start.starts_with("{\"") || start.starts_with("[{") || start.starts_with("[[") ||
      (start.starts_with("{") && start.find('"') != start.npos))
    return "is a JSON file; save its table as CSV";
  return {};
}

// Text of one or two bytes a character that has every other byte 0, as UTF-16 of western texts.
std::string_view utf_16_by_zeros(std::string_view bytes) {
  const std::string_view look = bytes.substr(0, 4096);
  std::array<std::size_t, 2> zeros{};
  for (std::size_t i = 0; i < look.size(); ++i)
    if (look[i] == '\0') ++zeros[i % 2];
  const std::size_t half = look.size() / 2;
  if (half == 0) return {};
  if (zeros[0] == 0 && 10 * zeros[1] >= 7 * half) return "UTF-16LE";
  if (zeros[1] == 0 && 10 * zeros[0] >= 7 * half) return "UTF-16BE";
  return {};
}

// Removes a mark from the front of `bytes`. Returns: the encoding that it stands for.
std::string_view take_mark(std::string& bytes) {
  struct Mark {
    std::string_view mark, encoding;
  };
  constexpr std::array kMarks = {Mark{"\xEF\xBB\xBF"sv, "UTF-8"},
                                 Mark{"\xFF\xFE\0\0"sv, "UTF-32LE"},
                                 Mark{"\0\0\xFE\xFF"sv, "UTF-32BE"}, Mark{"\xFF\xFE"sv, "UTF-16LE"},
                                 Mark{"\xFE\xFF"sv, "UTF-16BE"}};
  for (const auto& [mark, encoding] : kMarks)
    if (bytes.starts_with(mark)) {
      bytes.erase(0, mark.size());
      return encoding;
    }
  return {};
}

Result<std::string> to_utf_8(const std::string& path, std::string& bytes,
                             const std::string& encoding) {
  const iconv_t converter = iconv_open("UTF-8", encoding.c_str());
  if (converter == reinterpret_cast<iconv_t>(-1))
    return fail(ErrorCode::BadInput,
                fmt::format("{}: the encoding \"{}\" is not known here; iconv --list names those "
                            "that are",
                            path, encoding));
  const std::unique_ptr<void, int (*)(iconv_t)> closes(converter, &iconv_close);
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 16);
  char* from = bytes.data();
  std::size_t left = bytes.size();
  while (left > 0) {
    char* to = buffer.data();
    std::size_t room = buffer.size();
    const std::size_t done = iconv(converter, &from, &left, &to, &room);
    text.append(buffer.data(), buffer.size() - room);
    if (done == static_cast<std::size_t>(-1) && errno != E2BIG)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}:{}: the text is not {} from here on; set dataset.encoding", path,
                              1 + std::ranges::count(text, '\n'), encoding));
  }
  return text;
}

// Line ends "\r\n" become "\n"; so do those of a file that has "\r" alone.
void unify_line_ends(std::string& text) {
  if (text.find('\r') == text.npos) return;
  if (text.find('\n') == text.npos) {
    std::ranges::replace(text, '\r', '\n');
    return;
  }
  std::size_t to = 0;
  for (std::size_t from = 0; from < text.size(); ++from)
    if (text[from] != '\r' || from + 1 == text.size() || text[from + 1] != '\n')
      text[to++] = text[from];
  text.resize(to);
}

// The first byte that is no UTF-8, in a text in which other characters are: there are more of them
// than of such bytes. No such byte: nothing.
std::optional<std::size_t> stray_byte(std::string_view text) {
  std::size_t characters = 0, stray = 0, first = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence(text.substr(at));
    if (length == 0 && stray++ == 0) first = at;
    characters += length > 1 ? 1 : 0;
    at += std::max<std::size_t>(length, 1);
  }
  return characters > stray && stray > 0 ? std::optional(first) : std::nullopt;
}

// Takes byte-order marks from the begin of lines, where joined files have them. Returns: how many.
std::size_t take_inner_marks(std::string& text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  std::size_t marks = 0, to = 0;
  for (std::size_t from = 0; from < text.size();) {
    if ((to == 0 || text[to - 1] == '\n') &&
        std::string_view(text).substr(from).starts_with(kMark)) {
      from += kMark.size();
      ++marks;
    } else {
      text[to++] = text[from++];
    }
  }
  text.resize(to);
  return marks;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_high(char c) {
  return static_cast<unsigned char>(c) >= 0x80;
}

// Whether a word of Windows-1252 is one of a western language: high bytes stand beside letters of
// ASCII, or alone. Bytes that are no letters there do not stand between two.
bool is_western(std::string_view word) {
  constexpr std::string_view kRare = "\x81\x83\x88\x8D\x8F\x90\x98\x9D";
  constexpr std::string_view kSigns =
      "\x80\x82\x84\x85\x8B\x91\x92\x93\x94\x95\x96\x97\x9B\xA0\xA1\xA2\xA3\xA5\xA7"
      "\xAB\xB0\xBB\xBF";  // around words
  constexpr std::string_view kNoLetters = "\x82\x84\x86\x87\x89\x8B\x91\x93\x94\x9B";
  if (word.find_first_of(kRare) != word.npos) return false;
  for (std::size_t i = 1; i + 1 < word.size(); ++i)
    if (kNoLetters.find(word[i]) != word.npos && is_letter(word[i - 1]) && is_letter(word[i + 1]))
      return false;
  const auto first = word.find_first_not_of(kSigns);
  if (first == word.npos) return true;
  const std::string_view inner = word.substr(first, word.find_last_not_of(kSigns) - first + 1);
  return inner.size() < 2 || !std::ranges::all_of(inner, is_high);
}

// The first word with high bytes, where half of such words are none of a western language.
// Empty: the text may be Windows-1252.
std::string_view foreign_word(std::string_view text) {
  std::size_t western = 0, foreign = 0;
  std::string_view first;
  while (!text.empty()) {
    const auto begin =
        std::ranges::find_if(text, [](char c) { return is_high(c) || is_letter(c); });
    const auto end =
        std::find_if_not(begin, text.end(), [](char c) { return is_high(c) || is_letter(c); });
    const std::string_view word(begin, end);
    text = {end, text.end()};
    if (std::ranges::none_of(word, is_high)) continue;
    if (is_western(word)) {
      ++western;
    } else {
      ++foreign;
      if (first.empty()) first = word;
    }
  }
  return foreign >= western ? first : std::string_view();
}

Result<TextFile> text_of(const std::string& path, std::string bytes, std::string_view encoding) {
  if (const auto is = no_text(bytes); !is.empty())
    return fail(ErrorCode::BadInput, fmt::format("{}: {}", path, is));
  const std::string_view mark = take_mark(bytes);
  TextFile file{.text = {}, .encoding = std::string(encoding)};
  if (file.encoding.empty()) file.encoding = mark;
  if (file.encoding.empty()) file.encoding = utf_16_by_zeros(bytes);
  const bool utf_8 = (file.encoding.empty() || file.encoding == "UTF-8") && is_utf8(bytes);
  if (file.encoding.empty()) file.encoding = utf_8 ? "UTF-8" : "WINDOWS-1252";
  if (utf_8) {
    file.text = std::move(bytes);
  } else {
    // Five of the bytes of Windows-1252 stand for nothing there, but for controls in ISO 8859-1.
    const bool guessed = encoding.empty() && file.encoding == "WINDOWS-1252";
    if (const auto at = stray_byte(bytes); guessed && at)
      return fail(
          ErrorCode::BadInput,
          fmt::format(
              "{}:{}: the byte {:02x} is no UTF-8, as which the rest reads; mend it, "
              "or set dataset.encoding",
              path,
              1 + std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(*at), '\n'),
              static_cast<unsigned char>(bytes[*at])));
    if (const std::string_view word = foreign_word(bytes); guessed && !word.empty())
      return fail(
          ErrorCode::BadInput,
          fmt::format("{}:{}: the text is no UTF-8, and no western one from its looks; set "
                      "dataset.encoding, such as \"WINDOWS-1251\" or "
                      "\"KOI8-R\" (Cyrillic), \"GB18030\" or \"BIG5\" (Chinese), "
                      "\"SHIFT_JIS\", \"EUC-KR\", \"CP850\" (DOS), or save it as UTF-8",
                      path,
                      1 + std::ranges::count(std::string_view(bytes.data(), word.data()), '\n')));
    if (guessed && bytes.find_first_of("\x81\x8D\x8F\x90\x9D"sv) != bytes.npos)
      file.encoding = "ISO-8859-1";
    RUBATO_ASSIGN(file.text, to_utf_8(path, bytes, file.encoding));
  }
  if (const auto is = no_table(file.text); !is.empty())
    return fail(ErrorCode::BadInput, fmt::format("{}: {}", path, is));
  unify_line_ends(file.text);
  file.inner_marks = take_inner_marks(file.text);
  if (const auto zero = file.text.find('\0'); zero != file.text.npos)
    return fail(
        ErrorCode::BadInput,
        fmt::format("{}:{}: holds a zero byte, so it is no text, or damaged", path,
                    1 + std::count(file.text.begin(),
                                   file.text.begin() + static_cast<std::ptrdiff_t>(zero), '\n')));
  return file;
}

}  // namespace

Result<TextFile> read_text_file(const std::string& path, std::string_view encoding) {
  RUBATO_ASSIGN(std::string bytes, read_file(path));
  if (bytes.starts_with("\x1f\x8b")) {
    RUBATO_ASSIGN(bytes, unpacked(path, bytes));
    if (bytes.size() > kTextBytesMax)
      return fail(ErrorCode::BadInput, fmt::format("{}: holds more than {} GiB; use a part of it",
                                                   path, kTextBytesMax >> 30));
  }
  return text_of(path, std::move(bytes), encoding);
}

Result<TextFile> read_text_start(const std::string& path) {
  RUBATO_ASSIGN(std::string bytes, inflate(path, kStartBytes));
  bytes.resize(std::min(bytes.size(), kStartBytes));
  return text_of(path, std::move(bytes), {});
}

}  // namespace rubato::train
