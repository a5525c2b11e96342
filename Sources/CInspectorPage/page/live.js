// The feed of changes. EventSource cannot send a token, so the page reads server-sent events itself.

import { headers } from "./api.js";

// The node sends a comment every 15 to 20 seconds.
const silence = 45000;

/**
 * Follows /v1/changes for as long as the page is open.
 * @param {Function} take gets each transaction
 * @param {Function} tell gets "live" or "waiting", and whether that is after a gap
 */
export async function follow(take, tell) {
	let last = null;
	let pause = 500;
	let wasLive = false;
	let resume;
	addEventListener("tributary:token", () => resume?.());
	for (;;) {
		const ending = new AbortController();
		let alarm;
		const heard = () => {
			clearTimeout(alarm);
			alarm = setTimeout(() => ending.abort(), silence);
		};
		try {
			heard();
			const response = await fetch("/v1/changes", {
				headers: headers(last ? { "Last-Event-ID": last, Accept: "text/event-stream" } : { Accept: "text/event-stream" }),
				signal: ending.signal, cache: "no-store", credentials: "omit",
			});
			// The place was purged, or belongs to a store that is gone: go on from now.
			if (response.status === 410 || response.status === 400) last = null;
			if (!response.ok) throw new Error(String(response.status));
			tell("live", wasLive);
			wasLive = true;
			pause = 500;
			for await (const event of events(response.body, heard)) {
				if (event.id) last = event.id;
				if (event.type === "transaction" && event.data) take(JSON.parse(event.data));
			}
		} catch {
			// Whatever ended it, the answer is to connect again.
		}
		clearTimeout(alarm);
		tell("waiting", wasLive);
		await new Promise((go) => {
			resume = go;
			setTimeout(go, pause);
		});
		pause = Math.min(pause * 1.6, 5000);
	}
}

async function* events(body, heard) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	let event = { type: "message", data: "", id: null };
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		heard();
		const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
		rest = lines.pop();
		for (const line of lines) {
			if (line === "") {
				yield event;
				event = { type: "message", data: "", id: null };
				continue;
			}
			const colon = line.indexOf(":");
			if (colon === 0) continue;
			const name = colon < 0 ? line : line.slice(0, colon);
			const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
			if (name === "event") event.type = text;
			else if (name === "data") event.data = event.data ? `${event.data}\n${text}` : text;
			else if (name === "id") event.id = text;
		}
	}
}
