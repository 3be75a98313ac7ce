# The variable shown as a JSON string.
BEGIN { printf "%s", json(ENVIRON["shown"]) }
