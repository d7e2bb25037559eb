// Heat maps: the scores of windows, and how they are drawn.

/** Decode a heat map as the server sends it. */
export function decode(found) {
  const text = atob(found.scores ?? "");
  return { ...found, scores: Uint8Array.from(text, (letter) => letter.charCodeAt(0)) };
}

/** Draw the windows above a threshold on a small canvas, a pixel per window. */
export function tint(map, threshold) {
  const image = new ImageData(Math.max(1, map.columns), Math.max(1, map.lines));
  for (let at = 0; at < map.scores.length; at += 1) {
    const score = map.scores[at];
    if (score <= threshold) continue;
    const strength = (score - threshold) / Math.max(1, 255 - threshold);
    image.data.set([255, Math.round(210 * (1 - strength)), 0, 70 + Math.round(150 * strength)], 4 * at);
  }
  const small = new OffscreenCanvas(image.width, image.height);
  small.getContext("2d").putImageData(image, 0, 0);
  return small;
}

/** Draw a tinted heat map over a picture that is shown at (x, y) with the given scale (canvas per picture pixel). */
export function overlay(context, map, small, x, y, scale) {
  if (!map.lines || !map.columns) return;
  const [top, left] = map.origin;
  const step = map.step * scale;
  context.imageSmoothingEnabled = true;
  const at = [x + left * scale - step / 2, y + top * scale - step / 2];
  context.drawImage(small, ...at, map.columns * step, map.lines * step);
}
