# Appends a record per file to $records; called by find with some of the files.
done=$(wc -l <"$records")
next=$(date +%s)
for file; do
	shown=${file#./}
	case $shown in
	*[!A-Za-z0-9._/\ -]*) quoted=$(shown=$shown awk -f "$lib/json.awk" -f "$lib/quote.awk") ;;
	*) quoted=\"$shown\" ;;
	esac
	if digest=$($sum <"$file") 2>/dev/null; then
		printf '{"path":%s,"bytes":%d,"digest":"%s"}\n' "$quoted" "$(wc -c <"$file")" "${digest%% *}" >>"$records"
	else
		printf '{"path":%s,"error":"cannot be read"}\n' "$quoted" >>"$records"
	fi
	done=$((done + 1))
	now=$(date +%s)
	if [ "$now" -ge "$next" ]; then # once a second
		printf '%s: %d of %d files\n' "$name" $done "$total" >&2
		next=$((now + 1))
	fi
	[ -z "$pause" ] || sleep "$pause"
done
