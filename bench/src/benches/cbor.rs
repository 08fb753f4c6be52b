//! (u) What encoding and decoding cost, beside other codecs, and their share of a call and of reading and writing a key.

use std::{hint::black_box, time::Instant};

use abide_storage::cbor;
use anyhow::{Result, ensure};
use clap::Args;
use serde_bytes::ByteBuf;

use crate::{
    context::Context,
    figures,
    ours::{
        node::Local,
        values::{Act, Record, Sample, Small, Values},
    },
    report::{Measurement, Unit, micros},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Calls, reads and writes in one request to the object.
    #[arg(long, default_value_t = 100)]
    batch: u32,
}

/// Values that are encoded or decoded between two looks at the clock.
const BATCH: u32 = 16;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    if !context.wants_ours() {
        return Ok(());
    }
    let local = Local::start(&context.fresh_dir("ours")?)?;
    let bench = Bench {
        context,
        options,
        local: &local,
    };
    bench.value::<Small>()?;
    bench.value::<Record>()?;
    bench.value::<Vec<Small>>()?;
    bench.value::<ByteBuf>()?;
    bench.value::<String>()?;
    local.shutdown()
}

/// One way to encode and to decode a type.
struct Codec<T> {
    name: &'static str,
    encode: fn(&T) -> Result<Vec<u8>>,
    decode: fn(&[u8]) -> Result<T>,
}

fn ours<T: Sample>() -> Codec<T> {
    Codec {
        name: "ours",
        encode: |value| Ok(cbor::to_vec(value)?),
        decode: |bytes| Ok(cbor::from_slice(bytes)?),
    }
}

fn peers<T: Sample>() -> [Codec<T>; 2] {
    [
        Codec {
            name: "ciborium",
            encode: |value| {
                let mut bytes = Vec::new();
                ciborium::into_writer(value, &mut bytes)?;
                Ok(bytes)
            },
            decode: |bytes| Ok(ciborium::from_reader(bytes)?),
        },
        Codec {
            name: "cbor4ii",
            encode: |value| Ok(cbor4ii::serde::to_vec(Vec::new(), value)?),
            decode: |bytes| Ok(cbor4ii::serde::from_slice(bytes)?),
        },
    ]
}

struct Bench<'a> {
    context: &'a Context,
    options: &'a Options,
    local: &'a Local,
}

impl Bench<'_> {
    fn value<T: Sample>(&self) -> Result<()> {
        let mut codecs = vec![ours::<T>()];
        if self.context.wants_peer() {
            codecs.extend(peers());
        }
        let disk = self.context.probe()?;
        let mut codec_rows = vec![Vec::new(); codecs.len()];
        let mut whole_rows = Vec::new();
        // Everything takes turns, so that a share and a ratio are of one moment of the machine.
        for _ in 0..self.context.rounds() {
            for (codec, rows) in codecs.iter().zip(&mut codec_rows) {
                rows.push(self.codec(codec)?);
            }
            let [encode, decode] = codec_rows[0].last().copied().unwrap_or_default();
            let whole = [
                self.call::<T>()?,
                self.inside::<T>(Act::Call)?,
                self.inside::<T>(Act::Get)?,
                self.inside::<T>(Act::Put)?,
            ];
            // Of a call, the arguments and the result are encoded and decoded.
            let of_call = 2.0 * (encode + decode);
            let shares = [
                of_call / whole[0],
                of_call / whole[1],
                decode / whole[2],
                encode / whole[3],
            ];
            let [a, b, c, d] = whole;
            let [e, f, g, h] = shares.map(|share| share * 100.0);
            whole_rows.push([a, b, c, d, e, f, g, h]);
        }

        let medians: Vec<_> = codec_rows
            .iter()
            .map(|rows| figures::medians(rows))
            .collect();
        for (index, act) in ["encode", "decode"].into_iter().enumerate() {
            let line = || {
                let name = format!("cbor/{}/{act}", T::NAME);
                let ours = medians[0].map(|figures| figures[index]);
                Measurement::new(name, Unit::Microseconds, disk).ours(ours)
            };
            if codecs.len() == 1 {
                self.context.print(&line());
            }
            for (codec, medians) in codecs.iter().zip(&medians).skip(1) {
                let peer = medians.map(|figures| figures[index]);
                self.context.print(&line().peer(codec.name, peer));
            }
        }
        let Some(whole) = figures::medians(&whole_rows) else {
            return Ok(());
        };
        let names = ["call", "call-between-objects", "get", "put"];
        for (index, what) in names.into_iter().enumerate() {
            let name = format!("cbor/{}/{what}", T::NAME);
            let figures = [
                (name.clone(), Unit::Microseconds, whole[index]),
                (format!("{name}/share"), Unit::Percent, whole[index + 4]),
            ];
            for (name, unit, figure) in figures {
                let measurement = Measurement::new(name, unit, disk).ours(figure);
                self.context.print(&measurement);
            }
        }
        Ok(())
    }

    /// Microseconds to encode a value, and to decode it.
    fn codec<T: Sample>(&self, codec: &Codec<T>) -> Result<[f64; 2]> {
        let value = T::sample();
        let bytes = (codec.encode)(&value)?;
        ensure!(
            (codec.decode)(&bytes)? == value,
            "{} lost the value of {}",
            codec.name,
            T::NAME
        );
        let encode = self.mean(|| (codec.encode)(black_box(&value)))?;
        let decode = self.mean(|| (codec.decode)(black_box(&bytes)))?;
        Ok([encode, decode])
    }

    /// The mean microseconds of what is repeated for a slice.
    fn mean<R>(&self, act: impl Fn() -> Result<R>) -> Result<f64> {
        let (begun, mut times) = (Instant::now(), 0_u32);
        loop {
            for _ in 0..BATCH {
                black_box(act()?);
            }
            times += BATCH;
            let passed = begun.elapsed();
            if passed >= self.context.slice() {
                return Ok(micros(passed) / f64::from(times));
            }
        }
    }

    /// The mean microseconds of a call from outside.
    fn call<T: Sample>(&self) -> Result<f64> {
        let stub = self
            .local
            .host
            .env()
            .object::<Values>()
            .get_by_name("values");
        let value = T::sample();
        let begun = Instant::now();
        self.local.runtime.block_on(async {
            let mut calls = 0_u32;
            while begun.elapsed() < self.context.slice() {
                let result: T = stub.untyped().call(T::NAME, &(&value,)).await?;
                black_box(result);
                calls += 1;
            }
            Ok(micros(begun.elapsed()) / f64::from(calls))
        })
    }

    /// The mean microseconds of an act inside an object.
    fn inside<T: Sample>(&self, act: Act) -> Result<f64> {
        let stub = self
            .local
            .host
            .env()
            .object::<Values>()
            .get_by_name("values");
        let (begun, mut means, mut batches) = (Instant::now(), 0.0, 0_u32);
        while begun.elapsed() < self.context.slice() {
            let call = stub.measure(T::NAME.to_owned(), act, self.options.batch);
            means += self.local.runtime.block_on(call)?;
            batches += 1;
        }
        Ok(means / f64::from(batches.max(1)))
    }
}
