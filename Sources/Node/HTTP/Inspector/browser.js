import { h } from "./dom.js";
export async function browser(view) { view.page("x","x"); }
