# Lines 1 to 4: bytes; lines and words; number of the longest line; that line. Then: count and word, most frequent first.
NR == 1 { bytes = $1 + 0; next }
NR == 2 { lines = $1 + 0; words = $2 + 0; next }
NR == 3 { at = $1 + 0; next }
NR == 4 { longest = $0; next }
{ distinct++ }
distinct <= ENVIRON["top"] { list = list (distinct > 1 ? "," : "") "{\"word\":" json($2) ",\"count\":" $1 "}" }
END {
	printf "{\"file\":%s,\"bytes\":%d,\"lines\":%d,\"words\":%d,\"distinct_words\":%d,", json(ENVIRON["file"]), bytes, lines, words, distinct
	printf "\"longest_line\":{\"number\":%d,\"bytes\":%d,\"text\":%s},", at, length(longest), json(substr(longest, 1, 500))
	printf "\"top_words\":[%s]}\n", list
}
