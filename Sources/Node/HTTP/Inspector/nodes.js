import { h } from "./dom.js";
export async function nodesPage(view) { view.page("x","x"); }
