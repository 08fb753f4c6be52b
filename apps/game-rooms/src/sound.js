// The sounds of the game, made from oscillators. Browsers let a page sound only after its user has touched it, so nothing is made
// before `wake`, which handlers of clicks and keys call.
class Sound {
  constructor() {
    this.context = null;
    this.kept = remembered("localStorage");
    this.isMuted = this.kept.get("muted") === "yes";
  }
  get isAudible() { return this.context !== null && !this.isMuted; }
  wake() {
    if (this.isMuted || !globalThis.AudioContext) return;
    if (this.context === null) {
      this.context = new AudioContext();
      this.out = this.context.createGain();
      this.out.gain.value = 0.25;
      this.out.connect(this.context.destination);
    }
    if (this.context.state === "suspended") this.context.resume().catch(() => {});
  }
  mute(isMuted) {
    this.isMuted = isMuted;
    this.kept.set("muted", isMuted ? "yes" : "no");
    if (isMuted) this.context?.suspend().catch(() => {});
    else this.wake();
  }
  // A tone that glides from one pitch to another and fades.
  tone(from, to, seconds, kind = "triangle", after = 0) {
    if (!this.isAudible) return;
    const begin = this.context.currentTime + after, end = begin + seconds;
    const source = this.context.createOscillator(), fade = this.context.createGain();
    source.type = kind;
    source.frequency.setValueAtTime(from, begin);
    source.frequency.exponentialRampToValueAtTime(to, end);
    fade.gain.setValueAtTime(0.0001, begin);
    fade.gain.exponentialRampToValueAtTime(1, begin + 0.01);
    fade.gain.exponentialRampToValueAtTime(0.0001, end);
    source.connect(fade).connect(this.out);
    source.start(begin);
    source.stop(end);
  }
  begin() { this.tone(330, 330, 0.09); this.tone(495, 495, 0.14, "triangle", 0.1); }
  // Higher with each blip, for an octave and a half.
  blip(score) { const pitch = 520 * 2 ** (Math.min(score, 18) / 12); this.tone(pitch, pitch * 1.5, 0.12); }
  over() { this.tone(300, 60, 0.6, "sawtooth"); }
}
