// How values, objects, nodes and times look.

import { encode } from "./api.js";
import { marked } from "./diff.js";
import { h, part, scroller } from "./dom.js";

const long = 400;
const veryLong = 20000;

/** The entity and number of an object's address, or null. */
export function objectOf(uri) {
	const match = /^x-tributary:\/\/([^/]+)\/([^/]+)\/(p\d+)$/.exec(typeof uri === "string" ? uri : "");
	return match && { cluster: match[1], entity: match[2], id: match[3] };
}

/** The address on this page of an object. */
export const objectPlace = (uri) => {
	const object = objectOf(uri);
	return object ? `#/object/${encodeURIComponent(object.entity)}/${object.id}` : "#/data";
};

/** The address on this page of an entity's data. */
export const dataPlace = (entity) => `#/data/${encodeURIComponent(entity)}`;

/** The address on this page of a conflict. */
export const conflictPlace = (id) => `#/conflicts/${encodeURIComponent(id)}`;

/** A link to an object, with the text that people know it by. */
export function objectLink(uri, labels) {
	const object = objectOf(uri);
	if (!object) return String(uri);
	const label = labels?.get(uri);
	return h("a.object", { href: objectPlace(uri), title: `${object.entity} ${object.id}` },
		label ? h("bdi", shorten(label, 60)) : `${object.entity} ${shortID(object.id)}`);
}

/** The end of an object's number. */
export const shortID = (id) => (id.length > 9 ? `p…${id.slice(-6)}` : id);

/** The first characters of a text. */
export const shorten = (text, length) => (text.length > length ? `${text.slice(0, length)}…` : text);

/** A dot, shortened. */
export function dotText(dot) {
	const match = /^(\d+)\.([0-9a-f]+)-(\d+)$/.exec(dot ?? "");
	return h("code.dot", { title: dot }, match ? `${match[1]}·${match[2].slice(-4)}-${match[3]}` : String(dot ?? ""));
}

/** The node of a dot or actor. */
export const nodeOf = (dot) => Number(String(dot).split(".")[0]);

/** A mark for a node: its number, in its colour. */
export const nodeMark = (node) => (node === null ? h("span.tag", "not saved") : h("span.node", { node }, `node ${node}`));

/** Who wrote, or that nobody said. */
export const authorText = (author) => (author ? h("bdi.author", shorten(author, 80)) : h("span.quiet", "no author"));

/** Milliseconds of a timestamp. */
export const millis = (stamp) => Number(stamp?.milliseconds ?? 0);

/** A moment. */
export function timeText(milliseconds) {
	if (!milliseconds) return h("span.quiet", "no time");
	const date = new Date(milliseconds);
	const whole = Number.isNaN(date.getTime()) ? String(milliseconds) : date.toISOString().replace("T", " ").replace("Z", " UTC");
	return h("time", { title: whole, datetime: Number.isNaN(date.getTime()) ? null : date.toISOString() }, clock(date));
}

/** The time of day, with the day if it is not today. */
export function clock(date) {
	const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" })}, `;
	return day + date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

/** A duration in words. */
export function duration(milliseconds) {
	const seconds = Math.round(milliseconds / 1000);
	if (seconds < 1) return `${Math.round(milliseconds)} ms`;
	if (seconds < 120) return `${seconds} s`;
	if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
	return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

/** A count of bytes. */
export function size(bytes) {
	if (bytes < 1024) return `${bytes} bytes`;
	return bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1048576).toFixed(1)} MiB`;
}

/** "1 value", "2 values". */
export const count = (number, word, words = `${word}s`) => `${number.toLocaleString("en")} ${number === 1 ? word : words}`;

/** "a, b and c". */
export const listed = (texts) => (texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`);

function bytesOf(text) {
	try {
		return Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
	} catch {
		return new Uint8Array();
	}
}

/** A value on one line, for lists. */
export function brief(value, type, labels) {
	if (value == null) return h("span.none", "no value");
	if (type === "binary" && typeof value === "string") return h("span.quiet", `${size(Math.floor(value.replace(/=+$/, "").length * 0.75))} of binary`);
	if (Array.isArray(value)) return h("span", count(value.length, "object"));
	if (typeof value === "object") {
		const told = Object.entries(value).filter(([, one]) => one !== null).map(([key, one]) => `${key}: ${typeof one === "object" ? "…" : one}`);
		return h("span.quiet", shorten(told.join(", "), 80));
	}
	if (objectOf(value)) return objectLink(value, labels);
	if (value === "") return h("span.none", "empty text");
	return h("bdi.value", shorten(String(value).replace(/\n/g, "↵"), 80));
}

/** Links to the first of some objects. */
export const objectList = (uris, most, labels) => (uris.length
	? h("ul.plain", uris.slice(0, most).map((one) => h("li", objectLink(one, labels))), uris.length > most && h("li.quiet", `and ${uris.length - most} more`))
	: h("span.none", "none"));

/**
 * A whole value, with its differences from another one marked.
 * @param {string} type the attribute's type, or "reference"
 * @param {{value}} [other] what to compare with
 */
export function whole(value, type, other, labels) {
	if (value == null) return h("span.none", "no value");
	if (type === "binary" && typeof value === "string") return binary(bytesOf(value), typeof other?.value === "string" ? bytesOf(other.value) : null);
	if (Array.isArray(value)) return objectList(value, 50, labels);
	if (typeof value === "object") return h("pre.value", encode(value));
	if (objectOf(value)) return objectLink(value, labels);
	const text = String(value);
	if (text === "") return h("span.none", "empty text");
	const before = other && other.value != null && typeof other.value !== "object" ? String(other.value) : null;
	if (text.length > veryLong) {
		// The part where it first differs.
		let at = 0;
		while (before !== null && at < text.length && text[at] === before[at]) at += 1;
		const start = before === null ? 0 : Math.max(0, at - 200);
		const part = text.slice(start, start + 4000);
		return [h("p.quiet", `Of ${count(text.length, "character")}, those from ${start + 1} on:`), whole(part, type, before === null ? null : { value: before.slice(start, start + 4000) })];
	}
	const shown = h("div.value", { dir: "auto" }, before === null || before === text ? text : marked(before, text));
	return text.length > long ? [h("p.quiet", count(text.length, "character")), scroller("div.window", "The text", shown)] : shown;
}

// Bytes in rows of 16 from where they first differ; those that differ are marked.
function binary(bytes, other) {
	let first = 0;
	while (other && first < bytes.length && bytes[first] === other[first]) first += 1;
	const start = other && first < bytes.length ? Math.max(0, Math.floor(first / 16) - 1) * 16 : 0;
	const rows = [];
	for (let row = start; row < Math.min(bytes.length, start + 96); row += 16) {
		const line = h("div", h("span.quiet", row.toString(16).padStart(6, "0"), "  "));
		for (let at = row; at < Math.min(bytes.length, row + 16); at += 1) {
			const text = bytes[at].toString(16).padStart(2, "0");
			line.append(other && bytes[at] !== other[at] ? h("ins", text) : text, " ");
		}
		rows.push(line);
	}
	const told = [size(bytes.length)];
	if (other) told.push(first === bytes.length && first === other.length ? "the same bytes" : `differs from byte ${first} on; the other has ${size(other.length)}`);
	return h("div", h("p.quiet", `Binary, ${told.join("; ")}.`),
		scroller("div.hex", "Bytes", rows, start + 96 < bytes.length && h("div.quiet", "…")));
}

/** A text with a direction of its own. */
export const isolated = (text, length = 80) => h("bdi", shorten(String(text), length));
