# Reads CSV character by character, but looks at them only where there are quotes.
BEGIN {
	want = ENVIRON["columns"] + 0
	delimiter = ENVIRON["delimiter"]
	shown = 20
}

function problem(line, text) {
	problems++
	if (problems > shown) return
	list = list (problems > 1 ? "," : "") "{\"line\":" line ",\"message\":" json(text) "}"
	printf "%s: %s: line %d: %s\n", ENVIRON["name"], ENVIRON["file"], line, text >"/dev/stderr"
}

# field ends a field of the record under way.
function field(text) {
	fields++
	if (records == 0) head = head (fields > 1 ? "," : "") json(text)
}

# record ends the record under way.
function record() {
	if (records == 0 && want == 0) want = fields
	if (fields != want) problem(begun, "has " fields (fields == 1 ? " field" : " fields") ", expected " want)
	records++
	fields = 0
}

{
	sub(/\r$/, "")
	line = $0
	if (!quoted) {
		begun = NR
		if (index(line, "\"") == 0) { # as most lines are
			n = 0
			while ((at = index(line, delimiter)) > 0) { field(substr(line, 1, at - 1)); line = substr(line, at + 1) }
			field(line)
			record()
			next
		}
		text = ""
		closed = 0
		fresh = 1 # at the beginning of a field
	} else text = text "\n"

	n = length(line)
	for (i = 1; i <= n; i++) {
		c = substr(line, i, 1)
		if (quoted) {
			if (c != "\"") text = text c
			else if (substr(line, i + 1, 1) == "\"") { text = text c; i++ }
			else { quoted = 0; closed = 1 }
		} else if (c == delimiter) { field(text); text = ""; fresh = 1; closed = 0 }
		else if (c == "\"" && fresh) { quoted = 1; fresh = 0 }
		else {
			if (c == "\"" && !closed) problem(NR, "a quote in a field that does not begin with one")
			else if (closed == 1) { problem(NR, "text after the closing quote of a field"); closed = 2 }
			text = text c
			fresh = 0
		}
	}
	if (!quoted) { field(text); record() }
}

END {
	if (quoted) problem(begun, "a quote is opened and never closed")
	if (NR == 0) problem(1, "the file is empty")
	rows = records - (ENVIRON["header"] + 0 && records > 0)
	printf "{\"status\":\"%s\",\"file\":%s,\"rows\":%d,\"columns\":%d,", problems ? "invalid" : "valid", json(ENVIRON["file"]), rows, want
	if (ENVIRON["header"] + 0) printf "\"header\":[%s],", head
	printf "\"problem_count\":%d,\"problems\":[%s]}\n", problems, list
	if (problems > shown) printf "%s: and %d more\n", ENVIRON["name"], problems - shown >"/dev/stderr"
	exit problems ? 3 : 0
}
