// Made by scripts/bundles.
export * from "./vendor/editor-7ccdd8f6f6.js";
