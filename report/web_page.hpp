// report/web_page.hpp - a self-contained web page from a template, its data and its script.
// Errors: none. Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.hpp"
#include "base/task.hpp"
#include "report/model_style.hpp"

namespace rubato::report {

// `page`, `script`: of report_assets.hpp; style and Chart.js are common to all. The title is text
// and the data is data: neither can become markup.
// Returns: the page, which loads nothing.
std::string web_page(std::string_view page, std::string_view title, const OrderedJson& data,
                     std::string_view script);

// As charts take numbers: six digits; infinity, NaN and what is missing are null.
OrderedJson chart_number(double value);
OrderedJson chart_number(const std::optional<double>& value);

// How the pages mark a model.
OrderedJson style_json(const ModelStyle& style);

// The figure beside the loss, as the pages name and format it.
OrderedJson page_figure(Task task);

}  // namespace rubato::report
