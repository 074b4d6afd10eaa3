# Flattens YAML to lines of path, tab, value: `a: {b: [c]}` becomes `a/b/0<tab>c`.
#
# Knows what cloud-init documents are usually written in: nested mappings and lists by indentation, lists and mappings in
# brackets on one line (so JSON on one line too), plain and quoted scalars, block scalars (| and >). Does not know: anchors,
# tags, several documents, plain or quoted scalars over several lines. A line break inside a value becomes the character 1.

function push(new_kind, new_indent) {
  top++
  kind[top] = new_kind
  indent_of[top] = new_indent
  here[top] = new_kind == "list" ? -1 : ""
}

function path(   i, text) {
  text = here[1]
  for (i = 2; i <= top; i++) text = text "/" here[i]
  return text
}

function emit(text) { printf "%s\t%s\n", path(), text }

function trim(text) {
  sub(/^[ \t]+/, "", text)
  sub(/[ \t\r]+$/, "", text)
  return text
}

# The length of the quoted text or bracket that `text` begins with.
function closed_at(text,   i, c, quote, depth) {
  for (i = 1; i <= length(text); i++) {
    c = substr(text, i, 1)
    if (quote == "\"" && c == "\\") i++
    else if (quote != "") { if (c == quote) quote = "" }
    else if (c == "\"" || c == "'") quote = c
    else if (c == "[" || c == "{") depth++
    else if (c == "]" || c == "}") depth--
    if (quote == "" && depth == 0) return i
  }
  return 0
}

function escaped(text,   i, c, result) {
  for (i = 1; i <= length(text); i++) {
    c = substr(text, i, 1)
    if (c == "\\") {
      c = substr(text, ++i, 1)
      if (c == "n") c = "\001"
      else if (c == "t") c = "\t"
    }
    result = result c
  }
  return result
}

function scalar(text) {
  if (text ~ /^"/) return escaped(substr(text, 2, closed_at(text) - 2))
  if (text ~ /^'/) { text = substr(text, 2, length(text) - 2); gsub(/''/, "'", text); return text }
  sub(/[ \t]+#.*$/, "", text)
  return text == "null" || text == "~" ? "" : text
}

# The length of a key with its colon, or 0 if `text` is no entry of a mapping.
function key_length(text,   n) {
  if (text ~ /^["']/) { n = closed_at(text); return substr(text, n + 1) ~ /^ *:/ ? n + index(substr(text, n + 1), ":") : 0 }
  if (text ~ /^[[{]/) return 0
  return match(text, /:([ \t]|$)/)
}

# Up to the next comma outside quotes and brackets.
function next_part(text,   i, c) {
  for (i = 1; i <= length(text); i++) {
    c = substr(text, i, 1)
    if (c == ",") return substr(text, 1, i - 1)
    if (c ~ /["'[{]/ && (n_closed = closed_at(substr(text, i)))) i += n_closed - 1
  }
  return text
}

function bracket(text,   part, inner, n) {
  inner = substr(text, 2, length(text) - 2)
  push(text ~ /^\[/ ? "list" : "map", 100000)
  while (trim(inner) != "") {
    part = next_part(inner)
    inner = substr(inner, length(part) + 2)
    part = trim(part)
    if (kind[top] == "list") here[top]++
    else {
      # In JSON no space need follow the colon.
      n = part ~ /^"/ ? key_length(part) : index(part, ":")
      here[top] = scalar(trim(substr(part, 1, n - 1)))
      part = trim(substr(part, n + 1))
    }
    value(part)
  }
  top--
}

function value(text) {
  if (text == "" || text ~ /^#/) return
  if (text ~ /^[|>][-+]?[ \t]*(#.*)?$/) begin_block(text)
  else if (text ~ /^[[{]/ && closed_at(text)) bracket(substr(text, 1, closed_at(text)))
  else emit(scalar(text))
}

function begin_block(text) {
  in_block = 1
  block_style = substr(text, 1, 1)
  block_keeps_end = substr(text, 2, 1) != "-"
  block_indent = -1
  block_text = ""
  block_blank = ""
}

function block_line(line, indent) {
  if (trim(line) == "") { block_blank = block_blank "\001"; return }
  if (block_indent < 0) block_indent = indent
  if (block_text != "") block_text = block_text (block_style == "|" || block_blank != "" ? "\001" : " ")
  block_text = block_text block_blank substr(line, block_indent + 1)
  block_blank = ""
}

function end_block() {
  in_block = 0
  emit(block_text (block_keeps_end ? "\001" : ""))
}

# One entry at its column. A list may stand at the column of the key that it belongs to.
function entry(text, column,   n, rest) {
  while (top > 0 && indent_of[top] > column) top--
  if (text ~ /^-([ \t]|$)/) {
    if (!(top > 0 && kind[top] == "list" && indent_of[top] == column)) push("list", column)
    here[top]++
    rest = substr(text, 2)
    n = match(rest, /[^ \t]/)
    if (n && (substr(rest, n) ~ /^-[ \t]/ || key_length(substr(rest, n)))) entry(substr(rest, n), column + n)
    else value(trim(rest))
    return
  }
  n = key_length(text)
  if (!n) { if (top == 0 && text ~ /^[[{]/) value(text); return }
  if (top > 0 && kind[top] == "list" && indent_of[top] == column) top--
  if (!(top > 0 && kind[top] == "map" && indent_of[top] == column)) push("map", column)
  here[top] = scalar(trim(substr(text, 1, n - 1)))
  value(trim(substr(text, n + 1)))
}

{
  sub(/\r$/, "")
  column = match($0, /[^ ]/) - 1
  if (in_block) {
    if (column < 0 || column > indent_of[top]) { block_line($0, column); next }
    end_block()
  }
  if (column < 0 || $0 ~ /^ *#/ || $0 ~ /^---/) next
  entry(trim($0), column)
}

END { if (in_block) end_block() }
