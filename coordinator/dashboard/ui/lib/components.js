// Everything that pages are made of.
export { Icon } from "./ui/icons.js";
export { Badge, CodeLine, Copy, Dot, Hostile, Id, Num, Status, Text, Time, Took, copyText, shellQuote, visible } from "./ui/text.js";
export { Button, Choice, Confirm, Details, Dialog, Field, Menu, Problem, Search, Switch, Tabs } from "./ui/controls.js";
export { Empty, Failed, Loaded, Loading, NoPermission } from "./ui/states.js";
export { Card, Facts, Page } from "./ui/page.js";
export { Table, rowLink } from "./ui/table.js";
export { JsonLine, JsonView } from "./ui/json.js";
export { Markdown, safeLink } from "./markdown.js";
export { Toasts, announce, toast } from "./ui/toast.js";
export { useEvery, useResource } from "./resource.js";
