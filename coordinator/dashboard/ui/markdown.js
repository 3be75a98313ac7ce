// Made by scripts/bundles.
export * from "./vendor/markdown-3cf813b87a.js";
