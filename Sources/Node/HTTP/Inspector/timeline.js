import { h } from "./dom.js";
export async function timelinePage(view) { view.page("x","x"); }
