import { h } from "./dom.js";
export async function modelPage(view) { view.page("x","x"); }
