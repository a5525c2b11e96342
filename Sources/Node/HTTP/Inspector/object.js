import { h } from "./dom.js";
export async function objectPage(view) { view.page("x","x"); }
