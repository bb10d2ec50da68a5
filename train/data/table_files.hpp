// train/data/table_files.hpp - tables with a label column, from CSV and LIBSVM text files, plain or
// compressed by gzip.
// Sources: RFC 4180 (CSV); csie.ntu.edu.tw/~cjlin/libsvm (LIBSVM: "label index:value ...", indices
// from 1, ascending, absent ones 0, "#" starts a comment).
// train/data/text_file.hpp has the encodings. Errors: Io when the file cannot be read, BadInput
// "file:line: what" for the first bad line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "train/data/raw_data.hpp"
#include "train/model/input_schema.hpp"
#include "train/model/text_format.hpp"

namespace rubato::train {

struct RowOptions {
  Unlabelled unlabelled = Unlabelled::Keep;
  double skip_bad = 0;  // the share of the lines that may be wrong, and are left out then
  TextFormat text = {};
  std::size_t inputs = 0;     // LIBSVM: columns of the model, which is known; 0: none is
  bool may_be_empty = false;  // CSV: a line of names without samples is no error
};

// `features`: how many there are; 0: as many as the highest index in the file. A label is a number:
// "+1" and "1.0" are 1.
[[nodiscard]] Result<RawTable> read_libsvm(const std::string& path, std::size_t features,
                                           const RowOptions& rows = {});

// Whether the first line that holds something is one of LIBSVM, and each line but begins with a
// label or an entry. Lines of a time of day are none. A file that cannot be read is not.
bool looks_like_libsvm(const std::string& path);

struct CsvOptions {
  std::optional<bool> header = {};       // whether the first line is names; none: as it looks
  std::string label_column = {};         // a name of the header, else an index; empty: the last
  std::string weight_column = {};        // a name, else an index; empty: all count 1
  std::vector<std::string> ignore = {};  // names of columns to leave out, where they are there
  std::vector<std::string> categorical = {};  // names, or indices, of columns of categories
  RowOptions rows = {};
  std::string id_column = {};  // a name of the header, else an index: RawTable::ids; empty: none
};

// A column holds categories where `categorical` lists it or most values in its first records are
// texts. Otherwise all its values are numbers. train/data/csv_text.hpp says which fields are
// missing values. Labels and categories are texts, even where they look like numbers: they stay as
// they are. The first line is a header where the options say so or name one of its fields. Else it
// is judged, the label's field like the others; docs/data.md has the rule. One that may be either
// is refused. An empty name in a header becomes "column N"; a name that comes again gets a number.
[[nodiscard]] Result<RawTable> read_csv(const std::string& path, const CsvOptions& options);

// What to do with a category that the schema does not have.
enum class Unknown { Refuse, Count };

// The columns of `schema`, in its order, from a file that may have others too; without names all of
// them, which must be as many. There are no labels where the file has no such column.
// Of the options, `header` (where the schema has no names), `rows`, `id_column`, `weight_column`
// and, where the file has no column of the schema's label, `label_column` matter. There are no
// weights where the file has no such column.
[[nodiscard]] Result<RawTable> read_csv_as(const std::string& path, const InputSchema& schema,
                                           Unknown unknown, const CsvOptions& options = {});

// Of a sample. Nothing: it is negative, not finite, or too large.
std::optional<double> sound_weight(double number);

// The shortest spelling of a number: "+1" and "1.0" are "1". Other texts stay, and so does a number
// of more digits than a double holds.
std::string number_label(std::string_view text);

}  // namespace rubato::train
