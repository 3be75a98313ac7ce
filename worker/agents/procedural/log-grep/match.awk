# One line of grep -n: number:text
{
	colon = index($0, ":")
	printf "%s{\"file\":%s,\"line\":%d,\"text\":%s}", (ENVIRON["listed"] + NR > 1 ? "," : ""), json(ENVIRON["file"]), substr($0, 1, colon - 1), json(substr($0, colon + 1, 2000))
}
