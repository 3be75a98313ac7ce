// Markdown to a tree (mdast), with GFM's tables. It never makes HTML: ui/lib/markdown.js turns the nodes into elements.
import {fromMarkdown} from "mdast-util-from-markdown";
import {gfmTableFromMarkdown} from "mdast-util-gfm-table";
import {gfmTable} from "micromark-extension-gfm-table";

export function parse(text) {
  return fromMarkdown(text, {extensions: [gfmTable()], mdastExtensions: [gfmTableFromMarkdown()]});
}
