// Made by scripts/bundles.
export {
  parse,
} from "./vendor/markdown-3cf813b87a.js";
