// Class numbers painted over an image: each class in its color, stronger where it meets another.

const STRONGER = 0.9 / 0.55; // along the edges, as in reports

/** The numbers in an image of the server's: red is the low byte, green the high one; or from another channel on. */
export function readNumbers(image, channel = 0) {
  const [width, height] = [image.naturalWidth, image.naturalHeight];
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const numbers = new Uint16Array(width * height);
  for (let i = 0; i < numbers.length; i++) numbers[i] = data[4 * i + channel] + 256 * data[4 * i + channel + 1];
  return { numbers, width, height, data };
}

/** One pixel a number. `only`: the one class that is painted, or null for all but those in `clear`; without `fill` edges alone. */
export function paintLabels(canvas, { numbers, width, height }, colors, { opacity, only = null, clear = [], fill = true }) {
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const [inside, edge] = [fill ? Math.round(255 * opacity) : 0, Math.round(255 * Math.min(1, STRONGER * opacity))];
  const seen = (number) => (only === null ? !clear.includes(number) : number === only);
  const painted = colors.map((_, number) => seen(number));
  for (let i = 0; i < numbers.length; i++) {
    const number = numbers[i];
    if (!painted[number]) continue;
    const meets = (i % width > 0 && numbers[i - 1] !== number) || (i >= width && numbers[i - width] !== number);
    const [red, green, blue] = colors[number];
    image.data[4 * i] = red;
    image.data[4 * i + 1] = green;
    image.data[4 * i + 2] = blue;
    image.data[4 * i + 3] = meets ? edge : inside;
  }
  context.putImageData(image, 0, 0);
}
