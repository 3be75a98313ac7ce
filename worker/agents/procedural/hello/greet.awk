# The greeting, from the variable who.
BEGIN { printf "{\"greeting\":%s}\n", json("Hello, " ENVIRON["who"] "!") }
