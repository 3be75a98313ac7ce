// Made by scripts/bundles.
export * from "./vendor/base-709e21fb99.js";
