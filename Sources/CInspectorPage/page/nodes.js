// The nodes: a map with links and lag, what each has seen, and how this one is.

import { get } from "./api.js";
import { commandOf } from "./decide.js";
import { asCommand, button, h, keepFocus, later, part, replace, s, table } from "./dom.js";
import { count, dotText, duration, listed, millis, nodeMark, nodeOf, size, timeText } from "./values.js";

const number = (text) => h("span.num", typeof text === "number" ? text.toLocaleString("en") : text);

/** The view of all nodes. */
export async function nodesPage(view) {
	let status = await view.get("/v1/status");
	const place = h("div");
	const verified = h("div", { role: "status" });

	function draw() {
		const stable = new Map((status.stability?.members ?? []).map((one) => [one.node, one]));
		keepFocus(place, () => replace(place,
			status.savesRefused && h("p.bad-text", { role: "alert" }, `This node takes no saves: ${status.savesRefused.message}`),
			h("div.grid",
				h("div.panel", h("h2", "Map"), map(status, stable),
					h("p.legend", h("span", "━ link is up"), h("span", "╍ cut"), h("span", "┈ not visible from here"),
						h("span", "The ring shows how much of all known saves a node has. The page sees the links of this node only. The tables say the same."))),
				h("div.panel", h("h2", "Needs attention"), attention(stable), h("h2", "Links and lag"), peersTable(stable))),
			part("What each has seen", seenTable()),
			part(`This node: ${status.node}`, ownTable())));
	}

	function attention(stable) {
		const items = [];
		for (const peer of status.peers) {
			if (!peer.connected) items.push([nodeMark(peer.node), " is not connected. ", peer.lag > 0 ? `It lacks ${count(peer.lag, "save")} of ours. ` : "", "Both go on saving, and may make conflicts."]);
			if (peer.refusal) items.push([nodeMark(peer.node), ` refuses this node: ${typeof peer.refusal === "string" ? peer.refusal : JSON.stringify(peer.refusal)}`]);
		}
		for (const one of status.held ?? []) items.push(["Held back: ", dotText(one.transaction), ` – ${one.reason}`]);
		for (const one of status.alarms ?? []) items.push([h("strong", one.name), `: ${one.text} (${count(one.count, "time")}, last ${duration(one.lastMillisecondsAgo)} ago)`]);
		for (const one of status.parked ?? []) items.push([`Parked values: ${one.count} at ${one.place}`]);
		for (const one of status.reads?.underWay ?? []) if (one.milliseconds > 5000) items.push([`A read takes long: ${duration(one.milliseconds)} – `, h("code", one.text)]);
		if (status.transfer) items.push([`A copy of node ${status.transfer.donor} is being taken: ${size(status.transfer.bytes)} of ${size(status.transfer.total)}`]);
		for (const one of stable.values()) if (one.hindrance) items.push([`Old data waits: ${one.text}`]);
		const waits = Object.values(status.conflicts?.unresolved ?? {}).reduce((sum, one) => sum + one, 0);
		if (waits) items.push([h("a", { href: "#/conflicts" }, count(waits, "conflict")), " wait for a decision."]);
		return items.length ? h("ul.marks", { id: "attention" }, items.map((one) => h("li", one))) : h("p", { id: "attention" }, "✓ All is well.");
	}

	function peersTable(stable) {
		const rows = status.peers.map((peer) => {
			const one = stable.get(peer.node);
			return [nodeMark(peer.node), peer.connected ? h("span.up", "✓ connected") : h("span.bad-text", "✕ not connected"), number(peer.lag ?? 0), number(peer.missingHere ?? 0),
				number(peer.clockOffsetMilliseconds === null ? "unknown" : `${peer.clockOffsetMilliseconds} ms`), number(typeof one?.heardMillisecondsAgo === "number" ? `${duration(one.heardMillisecondsAgo)} ago` : "never")];
		});
		return rows.length ? table("Links and lag", ["Node", "Link", "It lacks", "We lack", "Its clock", "Heard"], rows) : h("p.quiet", "This node is by itself.");
	}

	// A row for each node, a column for each writer that anybody has seen.
	function seenTable() {
		const all = [{ node: status.node, vector: status.vector }, ...status.peers.map((one) => ({ node: one.node, vector: one.vector ?? {} }))].sort((one, two) => one.node - two.node);
		const actors = [...new Set(all.flatMap((one) => Object.keys(one.vector)))].sort((one, two) => nodeOf(one) - nodeOf(two) || (one < two ? -1 : 1));
		const most = (actor) => Math.max(...all.map((one) => Number(one.vector[actor] ?? 0)));
		const shown = actors.slice(-24);
		const rows = all.map((one) => [nodeMark(one.node), ...shown.map((actor) => {
			const has = Number(one.vector[actor] ?? 0);
			const behind = most(actor) - has;
			return number(behind ? h("span.bad-text", `${has.toLocaleString("en")} (${behind.toLocaleString("en")} behind)`) : has);
		})]);
		return [table("What each node has seen of each writer", ["Node", ...shown.map((actor) => `of ${nodeOf(actor)}·${actor.split(".")[1]?.slice(-4) ?? ""}`)], rows),
			h("p.quiet", "A column is one life of a node: its saves since it was started.", actors.length > shown.length && ` ${actors.length - shown.length} older ones are left out.`)];
	}

	function ownTable() {
		const history = status.history ?? {};
		const rows = [["Digest", h("code", status.digest)], ["Generation", number(status.generation)], ["Model", h("code", status.modelHash)],
			["Store", `${size(status.store?.bytes ?? 0)}, write-ahead log ${size(status.store?.walBytes ?? 0)}`],
			["History", [count(history.transactions ?? 0, "save"), `, ${size(history.bytes ?? 0)}`, history.oldest && [", since ", timeText(millis(history.oldest))]]],
			["Not yet stable", status.stability ? `${count(status.stability.waiting.transactions, "save")}, ${count(status.stability.waiting.tombstones, "deleted object")}` : "no mesh"]];
		return [table("How this node is", ["What", "Value"], rows),
			h("p.actions", button("Verify digests", verify, { key: "verify" })), verified, asCommand(commandOf("verify"))];
	}

	const verify = () => replace(verified, later(async () => {
		const answer = await view.post("/v1/verify", {});
		const peers = Object.entries(answer.peers ?? {}).map(([node, one]) => `node ${node} ${one.agrees === null ? "is at another vector" : one.agrees ? "agrees" : "differs"}`);
		return h(answer.ok ? "p" : "p.bad-text", answer.ok ? "✓ The store holds what was written" : "✕ The store or a peer differs", peers.length ? `; ${listed(peers)}.` : ".");
	}));

	view.page("Nodes", place);
	draw();
	view.every(1500, async () => {
		status = await get("/v1/status", {}, { signal: view.signal, quiet: true });
		draw();
	});
}

// The nodes in a circle, this one on top.
function map(status, stable) {
	const peers = status.peers.slice(0, 40);
	const all = [{ node: status.node, vector: status.vector, connected: true, isOwn: true }, ...peers];
	const isCrowded = all.length > 8;
	const radius = isCrowded ? 30 + all.length * 14 : 140;
	const middle = radius + 70;
	const total = {};
	for (const one of all) for (const [actor, sequence] of Object.entries(one.vector ?? {})) total[actor] = Math.max(total[actor] ?? 0, Number(sequence));
	const known = Object.values(total).reduce((sum, one) => sum + one, 0);
	const places = all.map((one, index) => {
		const angle = -Math.PI / 2 + (index * 2 * Math.PI) / all.length;
		return { ...one, x: middle + 60 + radius * 1.15 * Math.cos(angle), y: middle + 6 + radius * Math.sin(angle) };
	});
	const [own, ...others] = places;
	const wide = 2 * middle + 120;
	const tall = all.length === 2 ? 2 * radius + 130 : Math.max(...places.map((one) => one.y)) + 70;
	const cut = others.filter((one) => !one.connected).map((one) => one.node);
	const name = `Node ${own.node} and ${count(others.length, "other node")}. ${cut.length ? `Cut off: ${listed(cut.map((one) => `node ${one}`))}.` : "All links are up."}`;
	return h("div.picture", s("svg.map", { viewBox: `0 0 ${wide} ${tall}`, width: wide, height: tall, role: "img", label: name },
		!isCrowded && others.flatMap((one, index) => others.slice(index + 1).map((other) => s("line.link.unknown", { x1: one.x, y1: one.y, x2: other.x, y2: other.y }))),
		others.map((one) => linkMark(own, one, isCrowded ? 0.7 : 0.5)), places.map((one) => nodePicture(one, known, stable, isCrowded))));
}

const sum = (vector) => Object.values(vector ?? {}).reduce((all, one) => all + Number(one), 0);

function linkMark(own, one, part) {
	const [x, y] = [own.x + (one.x - own.x) * part, own.y + (one.y - own.y) * part];
	const lag = Number(one.lag ?? 0);
	const missing = Number(one.missingHere ?? 0);
	const text = [one.connected ? (lag || missing ? "" : "up to date") : "cut", lag > 0 && `it lacks ${lag}`, missing > 0 && `we lack ${missing}`].filter(Boolean).join(", ");
	return [s(`line.link${one.connected ? "" : ".cut"}`, { x1: own.x, y1: own.y, x2: one.x, y2: one.y }),
		s("rect.plate", { x: x - text.length * 3.7 - 6, y: y - 12, width: text.length * 7.4 + 12, height: 22, rx: 5 }),
		s(`text.middle${one.connected ? "" : ".warn"}`, { x, y: y + 4 }, text)];
}

function nodePicture(one, known, stable, isCrowded) {
	const round = 2 * Math.PI * 33;
	const has = sum(one.vector);
	const part = known ? has / known : 1;
	const heard = stable.get(one.node)?.heardMillisecondsAgo;
	return s("g", { node: one.node },
		s("circle.plate", { cx: one.x, cy: one.y, r: 36 }), s("circle.ring", { cx: one.x, cy: one.y, r: 33 }),
		s("circle.ring.part", { cx: one.x, cy: one.y, r: 33, "stroke-dasharray": `${round * part} ${round}`, transform: `rotate(-90 ${one.x} ${one.y})` }),
		s("circle.dot", { node: one.node, cx: one.x, cy: one.y, r: 25 }), s("text.in.big", { x: one.x, y: one.y + 6 }, String(one.node)),
		s("rect.plate", { x: one.x - 44, y: one.y + 42, width: 88, height: 18, rx: 4 }), s("text.middle.strong", { x: one.x, y: one.y + 56 }, 
			one.isOwn ? "this node" : one.connected ? "connected" : typeof heard === "number" ? `silent for ${duration(heard)}` : "never heard"),
		!isCrowded && s("rect.plate", { x: one.x - 62, y: one.y - 57, width: 124, height: 17, rx: 4 }), !isCrowded && s("text.small.middle", { x: one.x, y: one.y - 44 }, `has ${has} of ${known} saves`));
}
