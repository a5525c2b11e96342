// The frame of the page: which view is shown, what is live, keys, and who decides.

import { forgetToken, get, hasToken, post, Refusal } from "./api.js";
import { button, h, keepFocus, notice, plain, replace, say } from "./dom.js";
import { follow } from "./live.js";
import { handleKey, showHelp } from "./keys.js";
import { askAuthor, author } from "./decide.js";
import { forgetLabels } from "./schema.js";
import { conflictList } from "./conflicts.js";
import { conflictPage } from "./threeway.js";
import { browser } from "./browser.js";
import { objectPage } from "./object.js";
import { nodesPage } from "./nodes.js";
import { timelinePage } from "./timeline.js";
import { modelPage } from "./model.js";

const main = document.getElementById("main");
const views = [
	["conflicts", "Conflicts"], ["data", "Data"], ["nodes", "Nodes"], ["timeline", "Timeline"], ["model", "Model"],
];
const routes = [
	[/^conflicts$/, conflictList], [/^conflicts\/([^/]+)$/, conflictPage],
	[/^data(?:\/([^/]+))?$/, browser], [/^object\/([^/]+)\/(p\d+)$/, objectPage],
	[/^nodes$/, nodesPage], [/^timeline$/, timelinePage], [/^model$/, modelPage],
];

let current = null;
let status = null;
let liveState = "waiting";

function parts() {
	const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
	return { path: path || "conflicts", query: new URLSearchParams(query) };
}

/** What a view may use of the frame. */
class View {
	constructor(path, query, isNew) {
		this.path = path;
		this.query = query;
		this.ending = new AbortController();
		this.signal = this.ending.signal;
		this.listeners = [];
		this.keys = {};
		this.timers = [];
		this.isNew = isNew;
	}

	get status() { return status; }

	get(path, parameters, options) { return get(path, parameters, { ...options, signal: this.signal }); }

	post(path, body) { return post(path, body, { signal: this.signal }); }

	/** Shows the view's content under a heading, which is its title too. */
	page(heading, ...children) {
		if (this.signal.aborted) return;
		const head = h("h1", { tabindex: "-1", id: "heading" }, heading);
		document.title = `${head.textContent.slice(0, 80)} – ${status ? `${plain(status.cluster)}, node ${status.node}` : "Tributary"}`;
		const work = () => replace(main, head, children);
		if (this.isNew) work();
		else keepFocus(main, work);
		main.removeAttribute("aria-busy");
		main.inert = false;
		if (this.isNew) {
			this.isNew = false;
			scrollTo(0, 0);
			if (document.activeElement === document.body || document.activeElement === main || !document.activeElement?.closest("dialog")) head.focus({ preventScroll: true });
		}
	}

	/** What is known of conflicts: it differs where one came or closed. */
	get conflicts() { return JSON.stringify([status?.conflicts, status?.history?.closedConflicts]); }

	/** Calls back with transactions that were saved at any node; with none where some may have been missed. */
	onChange(callback) { this.listeners.push(callback); }

	/** Calls back again and again. */
	every(milliseconds, callback) {
		const step = async () => {
			if (this.signal.aborted) return;
			try {
				if (!document.hidden) await callback();
			} catch (error) {
				if (error.name === "AbortError") return;
			}
			if (!this.signal.aborted) this.timers.push(setTimeout(step, milliseconds));
		};
		this.timers.push(setTimeout(step, milliseconds));
	}

	/** Changes what follows the question mark of the address, without a new view. */
	setQuery(changes) {
		for (const [key, value] of Object.entries(changes)) {
			if (value === null || value === "" || value === undefined) this.query.delete(key);
			else this.query.set(key, value);
		}
		const text = this.query.toString();
		history.replaceState(null, "", `#/${this.path}${text ? `?${text}` : ""}`);
	}

	end() {
		this.ending.abort();
		this.timers.forEach(clearTimeout);
	}
}

async function show(event) {
	const { path, query } = parts();
	if (event?.type === "hashchange" && current?.path === path && current.onQuery) {
		current.query = query;
		current.onQuery();
		return;
	}
	current?.end();
	const view = new View(path, query, true);
	current = view;
	main.setAttribute("aria-busy", "true");
	// What is still shown belongs to a view that has ended.
	main.inert = true;
	drawNavigation();
	for (const [pattern, make] of routes) {
		const match = pattern.exec(path);
		if (!match) continue;
		try {
			if (!status) await readStatus();
			await make(view, ...match.slice(1).map((part) => part && decodeURIComponent(part)));
		} catch (error) {
			showError(view, error);
		}
		return;
	}
	view.page("There is no such page", h("p", h("a", { href: "#/conflicts" }, "Show the conflicts")));
}

function showError(view, error) {
	if (error.name === "AbortError" || view.signal.aborted) return;
	if (!(error instanceof Refusal)) console.error(error);
	const isToken = error.status === 401;
	view.page(isToken ? "This node wants a token" : "That did not work",
		h("p.bad-text", error.message), h("p", button(isToken ? "Enter a token" : "Try again", show, { class: "primary" })));
}

async function readStatus(quiet = false) {
	status = await get("/v1/status", {}, { quiet });
	drawNavigation();
	drawHere();
}

function drawNavigation() {
	const place = parts().path.split("/")[0].replace("object", "data");
	const open = Object.values(status?.conflicts?.unresolved ?? {}).reduce((sum, number) => sum + Number(number), 0);
	const nav = document.getElementById("nav");
	keepFocus(nav, () => replace(nav, views.map(([path, text]) =>
		h("a", { href: `#/${path}`, key: path, "aria-current": path === place ? "page" : null }, text,
			path === "conflicts" && open > 0 && h("span.badge", h("span.hidden", " "), open, h("span.hidden", " wait for a decision"))))));
}

function drawHere() {
	const here = document.getElementById("here");
	keepFocus(here, () => replace(here,
		status && h("span.where", h("bdi", status.cluster), ` · node ${status.node}`),
		liveState === "live" ? h("span.live.on", "Live") : h("span.live.off", "Not connected; trying again"),
		button(author() ? `You: ${author()}` : "Who are you?", async () => { await askAuthor(true); drawHere(); }, { key: "author", class: "small", title: "Decisions carry this name" }),
		hasToken() && button("Forget token", () => { forgetToken(); status = null; show(); }, { key: "token", class: "small" }),
		button("?", () => showHelp(), { key: "help", class: "small", label: "Keys and help" })));
}

// Transactions come one by one; views are told of them together, and more rarely the longer they take.
let waiting = [];
let isTelling = false;
async function take(transaction) {
	waiting.push(transaction);
	if (waiting.length > 500) waiting.shift();
	if (isTelling) return;
	isTelling = true;
	let pause = 200;
	while (waiting.length) {
		await new Promise((go) => setTimeout(go, pause));
		const [batch, start] = [waiting, performance.now()];
		waiting = [];
		forgetLabels(batch.flatMap((one) => one.changes.map((change) => change.object)));
		await refresh();
		await tell(batch);
		pause = Math.min(2000, 200 + 3 * (performance.now() - start));
	}
	isTelling = false;
}

const refresh = () => readStatus(true).catch(() => {});

async function tell(batch) {
	const view = current;
	for (const listener of view?.listeners ?? []) {
		try {
			await listener(batch);
		} catch (error) {
			if (error.name !== "AbortError" && !(error instanceof Refusal)) console.error(error);
		}
	}
}

function tellLive(state, isAgain) {
	if (state !== liveState) {
		liveState = state;
		if (isAgain) say(state === "live" ? "Connected again." : "Not connected.");
	}
	drawHere();
	// What came in the gap may have been missed, so the view reads everything again.
	if (state === "live" && isAgain) {
		refresh();
		if (main.querySelector("#heading")?.textContent === "That did not work") show();
		else tell([]);
	}
}

addEventListener("hashchange", show);
addEventListener("keydown", (event) => handleKey(event, current));
addEventListener("tributary:author", drawHere);
addEventListener("unhandledrejection", (event) => {
	if (event.reason?.name === "AbortError") event.preventDefault();
	else if (event.reason instanceof Refusal) {
		event.preventDefault();
		notice("bad", event.reason.message);
	}
});
setInterval(() => { if (!document.hidden && status) refresh(); }, 10000);
await show();
follow(take, tellLive);
