# json(s) is s as a JSON string, whatever bytes it holds: what is not UTF-8 becomes U+FFFD.
# Needs LC_ALL=C, so that a character is a byte.

function json(s,    out, i, n, c, k) {
	if (s !~ /[^ !#-[\]-~]/) return "\"" s "\""
	if (!(1 in JSON_CHAR)) json_tables()
	out = ""
	n = length(s)
	for (i = 1; i <= n; i++) {
		c = substr(s, i, 1)
		if (c in JSON_ESCAPE) out = out JSON_ESCAPE[c]
		else if (JSON_BYTE[c] < 128) out = out c
		else if (k = json_utf8(s, i)) { out = out substr(s, i, k); i += k - 1 }
		else out = out "\\ufffd"
	}
	return "\"" out "\""
}

function json_tables(    i, c) {
	for (i = 1; i < 256; i++) {
		c = sprintf("%c", i)
		JSON_CHAR[i] = c
		JSON_BYTE[c] = i
		if (i < 32 || i == 127) JSON_ESCAPE[c] = sprintf("\\u%04x", i)
	}
	JSON_ESCAPE["\""] = "\\\""
	JSON_ESCAPE["\\"] = "\\\\"
	JSON_ESCAPE["\n"] = "\\n"
	JSON_ESCAPE["\r"] = "\\r"
	JSON_ESCAPE["\t"] = "\\t"
}

# json_utf8 gives the length of the character that begins at byte i, 0 if none does.
function json_utf8(s, i,    a, b, k, low, high) {
	a = JSON_BYTE[substr(s, i, 1)]
	low = 128; high = 191
	if (a >= 194 && a <= 223) k = 2
	else if (a >= 224 && a <= 239) { k = 3; if (a == 224) low = 160; if (a == 237) high = 159 }
	else if (a >= 240 && a <= 244) { k = 4; if (a == 240) low = 144; if (a == 244) high = 143 }
	else return 0
	b = JSON_BYTE[substr(s, i + 1, 1)]
	if (b < low || b > high) return 0
	for (a = 2; a < k; a++) {
		b = JSON_BYTE[substr(s, i + a, 1)]
		if (b < 128 || b > 191) return 0
	}
	return k
}
