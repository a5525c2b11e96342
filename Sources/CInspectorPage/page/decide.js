// Decisions: who makes them, how they are sent, what they are on the command line.

import { conflictPath, encode, get, post } from "./api.js";
import { button, dialog, field, h, notice } from "./dom.js";
import { conflictPlace } from "./values.js";

const key = "tributary.author";

/** The policies that choose a value. */
export const choosing = [
	["mergeByPropertyStoreTrump", "the earliest write (mergeByPropertyStoreTrump)"],
	["mergeByPropertyObjectTrump", "the latest write (mergeByPropertyObjectTrump)"],
	["rollback", "the earliest whole row (rollback)"],
	["overwrite", "the latest whole row (overwrite)"],
];

/** What was kept in this browser, or null. */
export function remembered(name) {
	try {
		return localStorage.getItem(name);
	} catch {
		return null;
	}
}

/** Keeps something in this browser. */
export function remember(name, value) {
	try {
		localStorage.setItem(name, value);
	} catch {
		// Without storage the page asks again the next time.
	}
}

let named = remembered(key);

/** The name that decisions carry, or null if nobody gave it yet. */
export const author = () => named;

/** Asks for the name, unless it is known. */
export async function askAuthor(again = false) {
	if (named && !again) return named;
	const form = await dialog("Who are you?", [
		h("p", "Decisions carry your name, so that others see who made them."),
		field("Your name", { name: "author", value: named ?? "", required: true, maxlength: "200", autocomplete: "name" }),
	], "Go on");
	const given = form?.elements.author.value.trim();
	if (!given) return null;
	named = given;
	remember(key, given);
	dispatchEvent(new Event("tributary:author"));
	return named;
}

// A text as one word of a shell.
const quoted = (text) => (/^[A-Za-z0-9_./:=@,+-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);

/** A command line with this node's address. */
export const commandOf = (...words) => `tributary ${words.map(quoted).join(" ")} --node ${quoted(location.origin)}`;

const dots = (conflict) => [...new Set(conflict.sides.map((side) => side.dot).filter(Boolean))];

const command = (name, conflict, ...words) => commandOf("conflicts", name, conflict.id, ...words, ...(conflict.sides.length ? ["--seen", dots(conflict).join(",")] : []), ...(named ? ["--author", named] : []));

/** The command that decides as the page would. */
export function resolveCommand(conflict, how) {
	const words = [];
	if (how.side) words.push("--side", String(how.number));
	if (how.object) words.push("--object", how.object);
	if (how.policy) words.push("--policy", how.policy);
	if (how.values) words.push("--values", encode(how.values));
	if (how.delete) words.push("--delete");
	return command("resolve", conflict, ...words);
}

/** The command that undoes. */
export const undoCommand = (conflict) => command("undo", conflict);

const send = (conflict, what, how, note) => post(`${conflictPath(conflict.id)}/${what}`, {
	...how, number: undefined, sides: conflict.sides.length ? dots(conflict) : undefined, author: named, context: "inspector", note: note || undefined,
});

/**
 * Decides one conflict. The request names the sides that were shown, so it is refused if another came.
 * @param {object} how side, values, policy, delete or change
 */
export const resolve = (conflict, how, note) => send(conflict, "resolution", how, note);

/** Writes what a conflict's outcome replaced. */
export const undo = (conflict, note) => send(conflict, "undo", {}, note);

/** The closed conflict that an open one became, the newest of them; null if there is none. */
export async function closedOf(id, cluster, signal) {
	const match = /^([^.]+)\.(p\d+)\./.exec(id);
	if (!match) return null;
	const answer = await get("/v1/conflicts", { state: "all", object: `x-tributary://${cluster}/${match[1]}/${match[2]}`, limit: 500 }, { signal });
	const open = id.replace(/@\d+$/, "");
	const named = answer.conflicts.filter((one) => one.id === open || (one.id.startsWith(open) && /^(\.\d+)?@\d+$/.test(one.id.slice(open.length))));
	return named.find((one) => one.open) ?? named[0] ?? null;
}

/** A button that undoes decisions, once. */
export const undoAllButton = (text, ids, cluster) => button(text, (event) => { event.target.disabled = true; undoAll(ids, cluster); }, { class: "small" });

// Undoes several decisions, one after the other, and tells how many went well.
async function undoAll(ids, cluster) {
	if (!(await askAuthor())) return;
	let done = 0;
	const problems = [];
	for (const id of ids) {
		try {
			const closed = await closedOf(id, cluster);
			if (!closed) throw new Error(`The node no longer has ${id}.`);
			await undo(closed);
			done += 1;
		} catch (error) {
			problems.push(error.message);
		}
	}
	notice(problems.length ? "bad" : "good", `Undone: ${done} of ${ids.length}.`, problems.slice(0, 3).map((text) => h("p", text)));
}

/** Tells of one decision, with the way back. */
export function tellDecision(text, conflict, cluster) {
	notice("good", text,
		h("p.actions",
			undoAllButton("Undo", [conflict.id], cluster),
			h("a", { href: conflictPlace(conflict.id) }, "Show the conflict")));
}
