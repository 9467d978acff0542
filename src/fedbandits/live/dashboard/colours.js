// Colours for all kinds of colour vision. A number or a word always accompanies a colour.

// Viridis in 16 steps, as in the legend's ramp in style.css.
const VIRIDIS = [
  0x440154, 0x48186a, 0x472d7b, 0x424086, 0x3b528b, 0x33638d, 0x2c728e, 0x26828e, 0x21918c,
  0x1fa088, 0x28ae80, 0x3fbc73, 0x5ec962, 0x84d44b, 0xaddc30, 0xd8e219, 0xfde725,
];

// Red, green and blue for a share in [0, 1].
export function heat(share) {
  const at = Math.min(1, Math.max(0, share)) * (VIRIDIS.length - 1);
  const i = Math.min(VIRIDIS.length - 2, Math.floor(at));
  const part = (colour, shift) => (colour >> shift) & 255;
  return [16, 8, 0].map((shift) =>
    Math.round(part(VIRIDIS[i], shift) * (1 - (at - i)) + part(VIRIDIS[i + 1], shift) * (at - i)));
}

export const PALETTE = 8; // the classes colour-0 to colour-7 of style.css

// The colour of an arm depends only on its position among the arms. Beyond eight arms colours repeat;
// numbers distinguish the arms.
export const armColour = (arm, arms) => arms.indexOf(arm) % PALETTE;
